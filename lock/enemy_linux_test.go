package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// enemy may do in the directory what it likes: it moves, removes, links, replaces
// and tears the record and the guard.
type enemy struct{ dir, private string }

func (e *enemy) strike() {
	name := e.dir + "/target.lock"
	if rand.N(4) == 0 {
		name += guardSuffix
	}
	weapons := []func(name string) error{
		func(name string) error { return os.Rename(name, e.private) },
		func(name string) error { return os.Link(name, e.private) },
		func(name string) error { return os.Mkdir(name, 0o700) },
		func(name string) error { return os.Symlink("../outside", name) },
		func(name string) error { return os.Symlink("missing", name) },
		func(name string) error { return unix.Mkfifo(name, 0o600) },
		func(name string) error { return e.replace(name, peerLines, 0) },
		func(name string) error { return e.replace(name, nil, 1<<30) },
		func(name string) error { return e.replace(name, e.read(name), 0) },
		func(name string) error { return e.write(name, []byte(`{"pid":`)) },
		func(name string) error { return unix.Fchmodat(unix.AT_FDCWD, name, 0, unix.AT_SYMLINK_NOFOLLOW) },
		os.Remove, os.Remove, os.Remove, os.Remove,
	}
	_ = weapons[rand.N(len(weapons))](name)
	_ = os.Remove(e.private)
	if rand.N(3) == 0 {
		_ = os.Remove(name)
	}
}

var peerLines = appendRecord([]byte(`{"pid":1}`), nil, newToken())

func (e *enemy) replace(name string, content []byte, size int64) error {
	err := os.WriteFile(e.private, content, 0o600)
	if size > 0 {
		err = errors.Join(err, os.Truncate(e.private, size))
	}
	return errors.Join(err, os.Rename(e.private, name))
}

// open blocks on no FIFO and follows no link: the enemy cannot get out either.
func (e *enemy) open(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
}

func (e *enemy) read(name string) []byte {
	f, err := e.open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0) // not of a FIFO
	return b[:n]
}

func (e *enemy) write(name string, content []byte) error {
	f, err := e.open(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Truncate(int64(len(content))), f.Close())
}

// victim uses every kind of lock of one target, and notes errors that are none of
// those documented.
type victim struct {
	t   *testing.T
	m   *Manager
	dir string
}

func (v *victim) allow(what string, err error, more ...error) {
	for _, known := range append(more, ErrBusy, ErrRecord, ErrCompromised) {
		if err == nil || errors.Is(err, known) {
			return
		}
	}
	v.t.Errorf("%s: %v [%s]", what, err, Code(err))
}

// release insists: after any other error the lock is held, and may be released
// again.
func (v *victim) release(l Lock) {
	for range 1000 {
		err := l.Release()
		if err == nil || errors.Is(err, ErrCompromised) {
			must(v.t, l.Release())
			return
		}
		v.allow("release", err)
	}
	v.t.Error("never released")
}

func (v *victim) sidecar() {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(50*time.Millisecond))
	defer cancel()
	r := openRoot(v.t, v.dir)
	defer r.Close()
	o := Options{Retry: Retry{Min: time.Millisecond, Max: time.Millisecond}, KeepRecord: rand.N(3) == 0}
	if rand.N(2) == 0 {
		o.CheckInterval = minCheck
	}
	if rand.N(3) == 0 {
		o.StaleAfter, o.StaleRecovery = time.Millisecond, RemoveIfUnchanged
		o.ShouldRemoveStale = func(StaleRecord) (bool, error) { return true, nil }
	}
	l, err := v.m.Acquire(ctx, r, "target", o)
	v.allow("acquire", err)
	if err == nil {
		v.allow("verify", l.Verify(context.Background()))
		if rand.N(20) == 0 {
			v.allow("drain", v.m.Drain(context.Background()))
		}
		v.release(l)
	}
	_, err = Inspect(ctx, r, "target", Options{})
	v.allow("inspect", err)
	must(v.t, v.m.Drain(context.Background()))
}

func (v *victim) lease() {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(50*time.Millisecond))
	defer cancel()
	r := openRoot(v.t, v.dir)
	defer r.Close()
	l, err := AcquireLease(ctx, r, "target", LeaseOptions{TTL: MinTTL, Timeout: 20 * time.Millisecond})
	v.allow("lease", err, ErrStale)
	if err != nil {
		return
	}
	v.allow("verify", l.Verify(context.Background()))
	v.allow("extend", l.Extend(ctx, 0), context.DeadlineExceeded)
	v.release(l)
}

// An enemy in the same directory, without pause. No call panics, hangs, follows
// the enemy outside, answers with an error that is not documented, or leaves
// anything of its own behind; and when the enemy is gone, the lock works.
func TestEnemy(t *testing.T) {
	base := t.TempDir()
	dir := base + "/root"
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.WriteFile(base+"/outside", []byte("outside"), 0o600))
	files, routines := openFDs(t), runtime.NumGoroutine()
	stop := make(chan struct{})
	var enemies, victims sync.WaitGroup
	for i := range 2 {
		e := enemy{dir, fmt.Sprint(dir, "/.enemy", i)}
		enemies.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					e.strike()
				}
			}
		})
	}
	for i := range 6 {
		v := victim{t, NewManager(fmt.Sprint(t.Name(), i)), dir}
		victims.Go(func() {
			for range 60 {
				if i == 0 {
					v.lease()
				} else {
					v.sidecar()
				}
			}
		})
	}
	victims.Wait()
	close(stop)
	enemies.Wait()
	wantFile(t, base+"/outside", []byte("outside"))
	for _, name := range names(t, dir) {
		if strings.HasPrefix(name, "target.lock") || strings.HasPrefix(name, ".enemy") {
			must(t, os.RemoveAll(dir+"/"+name))
		}
	}
	r := openRoot(t, dir)
	l, err := TryAcquire(deadline(t), r, "target", Options{})
	must(t, err)
	must(t, l.Release())
	lease := acquireTest(t, r, LeaseOptions{Timeout: 10 * time.Second})
	must(t, lease.Release())
	_, err = Sweep(r, ".")
	must(t, err)
	// What the enemy slipped under a record that was moved to be kept stays aside,
	// if it is none.
	for _, name := range names(t, dir) {
		info, err := os.Lstat(dir + "/" + name)
		must(t, err)
		if name != ".caproot" && (info.Mode().IsRegular() || !strings.HasPrefix(name, privatePrefix)) {
			t.Errorf("left: %s %v", name, info.Mode())
		}
	}
	must(t, r.Close())
	wantNoMore(t, files, routines)
}
