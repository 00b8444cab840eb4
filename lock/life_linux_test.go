package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// forbidRemoval keeps names from being removed from the directory, and for root
// too: by the attribute "append only" of the file system.
func forbidRemoval(t testing.TB, dir string) (allow func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		must(t, os.Chmod(dir, 0o555))
		return func() { must(t, os.Chmod(dir, 0o755)) }
	}
	const appendOnly = 0x20 // FS_APPEND_FL
	f, err := os.Open(dir)
	must(t, err)
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|appendOnly))
	}
	if err != nil {
		t.Skipf("no append-only directories here: %v", err)
	}
	allow = sync.OnceFunc(func() {
		must(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags)))
		f.Close()
	})
	t.Cleanup(allow)
	return allow
}

// case 126: a release that fails is an error; the lock is still held, and a
// second release works. References count right.
func TestFailedRelease(t *testing.T) {
	for name, o := range map[string]Options{"removed": {Owner: "a"}, "kept": {Owner: "a", KeepRecord: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
			first, err := m.Acquire(ctx, r, "target", o)
			must(t, err)
			second, err := m.Acquire(ctx, r, "target", o)
			must(t, err)
			allow := forbidRemoval(t, dir)
			must(t, first.Release())
			want(t, "last release", second.Release(), fs.ErrPermission)
			want(t, "last release, again", second.Release(), fs.ErrPermission)
			must(t, second.Verify(ctx))
			want(t, "drain", m.Drain(ctx), fs.ErrPermission)
			_, err = m.TryAcquire(ctx, r, "target", Options{})
			want(t, "another", err, ErrBusy)
			third, err := m.TryAcquire(ctx, r, "target", o)
			must(t, err)
			allow()
			must(t, second.Release())
			wantNames(t, dir, "target.lock")
			must(t, third.Release())
			must(t, m.Drain(ctx))
			wantNames(t, dir)
		})
	}
}

// A root that is closed, or whose path names another directory now, leaves the
// record where it is, and nothing else is touched.
func TestRootGone(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(base+"/dir", 0o755))
	p := caproot.Workspace()
	p.Bind = caproot.BindPath
	r, err := caproot.Open(base+"/dir", p)
	must(t, err)
	defer r.Close()
	m, ctx := NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	record, err := os.ReadFile(base + "/dir/target.lock")
	must(t, err)
	must(t, os.Rename(base+"/dir", base+"/moved"))
	must(t, os.Mkdir(base+"/dir", 0o755))
	must(t, os.WriteFile(base+"/dir/target.lock", record, 0o600))
	want(t, "release", l.Release(), caproot.ErrChanged)
	wantNames(t, base+"/dir", "target.lock")
	wantNames(t, base+"/moved", "target.lock")
	must(t, os.RemoveAll(base+"/dir"))
	must(t, os.Rename(base+"/moved", base+"/dir"))
	must(t, l.Release())
	wantNames(t, base+"/dir")

	l, err = m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	must(t, r.Close())
	want(t, "release through a closed root", l.Release(), fs.ErrClosed)
	wantNames(t, base+"/dir", "target.lock")
	m.Reset()
}

// Reset is the death of the manager: the next one has proof.
func TestReset(t *testing.T) {
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{CheckInterval: minCheck, OnCompromised: func(err error) {
		t.Errorf("callback after Reset: %v", err)
	}})
	must(t, err)
	work := l.Context(ctx)
	m.Reset()
	wantNames(t, dir, "target.lock")
	<-work.Done()
	want(t, "the work's context", context.Cause(work), ErrCompromised)
	want(t, "Verify", l.Verify(ctx), ErrCompromised)
	again, err := NewManager(t.Name()+"2").TryAcquire(ctx, r, "target", Options{})
	must(t, err)
	want(t, "Release", l.Release(), ErrCompromised)
	must(t, again.Verify(ctx))
	must(t, again.Release())
	wantNames(t, dir)
}

// The time of modification is refreshed, the bytes are not.
func TestRefresh(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), deadline(t)
	l, err := NewManager(t.Name()).Acquire(ctx, r, "target", Options{StaleAfter: 30 * time.Millisecond})
	must(t, err)
	record, err := os.ReadFile(dir + "/target.lock")
	must(t, err)
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir+"/target.lock", old, old))
	for {
		info, err := os.Stat(dir + "/target.lock")
		must(t, err)
		if time.Since(info.ModTime()) < time.Minute {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("not refreshed")
		}
		time.Sleep(time.Millisecond)
	}
	wantFile(t, dir+"/target.lock", record)
	must(t, l.Release())
	wantNames(t, dir)
}

// A copy of a record with a witness, as a backup or a sync tool makes it, is no
// witness: nobody locks it, and nobody is dead for that.
func TestCopiedRecord(t *testing.T) {
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	record, err := os.ReadFile(dir + "/target.lock")
	must(t, err)
	// While the original is there, no copy can have its inode's number.
	must(t, os.WriteFile(dir+"/other.lock", record, 0o600))
	_, err = m.TryAcquire(ctx, r, "other", Options{})
	want(t, "a copy", err, ErrBusy)
	wantFile(t, dir+"/other.lock", record)
	must(t, l.Release())
	wantNames(t, dir, "other.lock")
}

// case 120: the record vanishes while it is looked at, again and again; that is
// a retry, and absence is never an error.
func TestVanishes(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	path := dir + "/target.lock"
	record := peerRecord(t, fields{"pid": 1})
	stop := make(chan struct{})
	var peer sync.WaitGroup
	peer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				continue
			}
			f.Write(record)
			f.Close()
			os.Remove(path)
		}
	})
	m := NewManager(t.Name())
	for range 10_000 {
		l, err := m.TryAcquire(context.Background(), r, "target", Options{})
		if err != nil {
			if !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
			continue
		}
		must(t, l.Release())
	}
	close(stop)
	peer.Wait()
	wantNames(t, dir)
}

// case 130: a file system that is read-only is an error at once.
func TestReadOnlyMount(t *testing.T) {
	dir := mount(t, "tmpfs", unix.MS_RDONLY)
	_, err := NewManager(t.Name()).Acquire(deadline(t), openRoot(t, dir), "target", Options{})
	want(t, "acquire", err, unix.EROFS)
}

// case 129: a sticky directory is used as it is.
func TestStickyDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	l, err := NewManager(t.Name()).Acquire(deadline(t), openRoot(t, dir), "target", Options{})
	must(t, err)
	must(t, l.Release())
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("mode became %v", info.Mode())
	}
}

// mount mounts a file system for the test.
func mount(t testing.TB, kind string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(kind, dir, kind, flags, ""); err != nil {
		t.Skipf("cannot mount %s: %v", kind, err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// A file system that is not known to have locks that prove something: records
// have no witness, exclude all the same, and are stale like those of peers.
func TestUntrusted(t *testing.T) {
	dir := mount(t, "ramfs", 0)
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	must(t, l.Verify(ctx))
	if held := m.Held(); len(held) != 1 || held[0].Witness {
		t.Errorf("held: %+v", held)
	}
	other := NewManager(t.Name() + "2")
	yes := func(StaleRecord) (bool, error) { return true, nil }
	o := Options{StaleAfter: 1, StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: yes}
	_, err = other.TryAcquire(ctx, r, "target", o)
	want(t, "a live holder of this process, however stale", err, ErrBusy)
	must(t, l.Release())
	wantNames(t, dir)
	c := start(t, dir, "hold")
	c.hears("held")
	c.kill()
	_, err = m.TryAcquire(ctx, r, "target", Options{})
	want(t, "a dead holder without proof", err, ErrBusy)
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir+"/target.lock", old, old))
	_, err = m.TryAcquire(ctx, r, "target", Options{})
	want(t, "a stale one", err, ErrStale)
	l, err = m.TryAcquire(ctx, r, "target", o)
	must(t, err)
	must(t, l.Release())
	_, err = m.TryAcquire(ctx, r, "target", Options{Fair: true})
	want(t, "a fair queue", err, ErrUnsupported)
	must(t, os.Remove(dir+"/target.lock.queue"))
	wantNames(t, dir)
}

// The queue of Fair lets processes in as they came.
func TestFairOrder(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	l, err := m.Acquire(deadline(t), r, "target", Options{})
	must(t, err)
	const many = 6
	var all []*child
	for i := range many {
		c := start(t, dir, "order", "FAIR=1", fmt.Sprint("NUMBER=", i))
		c.hears("begins")
		awaitTicket(t, dir+"/target.lock.queue", uint64(i)+1)
		all = append(all, c)
	}
	must(t, l.Release())
	for _, c := range all {
		c.end()
	}
	wantFile(t, dir+"/order", []byte("012345"))
	wantNames(t, dir, "order", "target.lock.queue")
	// One that gives up lets those behind it pass.
	l, err = m.Acquire(deadline(t), r, "target", Options{})
	must(t, err)
	front, back := NewManager(t.Name()+"front"), NewManager(t.Name()+"back")
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 2)
	go func() {
		_, err := front.Acquire(ctx, r, "target", Options{Fair: true})
		results <- err
	}()
	awaitTicket(t, dir+"/target.lock.queue", many+1)
	go func() {
		l, err := back.Acquire(deadline(t), r, "target", Options{Fair: true})
		if err == nil {
			err = l.Release()
		}
		results <- err
	}()
	awaitTicket(t, dir+"/target.lock.queue", many+2)
	cancel()
	want(t, "given up", <-results, context.Canceled)
	must(t, l.Release())
	must(t, <-results)
}

// awaitTicket returns when the counter of the queue has come to n.
func awaitTicket(t testing.TB, queue string, n uint64) {
	t.Helper()
	for ctx := deadline(t); ; time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(queue)
		if err == nil && len(data) == counterBytes && data[7] == byte(n) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("counter is %v (%v), want %d", data, err, n)
		}
	}
}
