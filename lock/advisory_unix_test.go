//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func flockCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("no flock(1) on this system")
	}
	return exec.Command(program, args...)
}

// flock(1) of util-linux excludes and is excluded.
func TestAdvisoryFlockCommand(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	path := filepath.Join(dir, "l")
	for _, c := range []struct {
		ours   bool
		theirs string
		busy   bool
	}{{false, "-x", true}, {false, "-s", true}, {true, "-x", true}, {true, "-s", false}} {
		what := fmt.Sprintf("we shared: %v, flock %s", c.ours, c.theirs)
		l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{Shared: c.ours})
		must(t, err)
		err = flockCommand(t, c.theirs, "-n", path, "true").Run()
		if (err != nil) != c.busy {
			t.Errorf("%s: %v", what, err)
		}
		must(t, l.Release())

		other := startCommand(t, flockCommand(t, c.theirs, path, "sh", "-c", "echo held; read x"))
		other.hears("held")
		if err := tryAdvisory(t, r, "l", c.ours); errors.Is(err, ErrBusy) != c.busy {
			t.Errorf("%s, in the other order: %v", what, err)
		}
		other.tell()
		must(t, other.cmd.Wait())
	}
}

// Case 131: the file goes while somebody waits for its lock.
func TestAdvisoryUnlinkedWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	a := startAdvisory(t, dir, "hold l unlink")
	a.hears("held")
	pinned, err := os.Open(filepath.Join(dir, "l")) // or its number comes back
	must(t, err)
	defer pinned.Close()
	before, err := pinned.Stat()
	must(t, err)

	line := advisoryLineOf(t, dir, "l")
	b := make(chan Lock)
	go func() {
		l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{})
		if err != nil {
			t.Error(err)
		}
		b <- l
	}()
	line.untilBlocked(1)
	line.done()
	a.tell()
	a.hears("released <nil>")
	l := <-b
	must(t, l.Verify(ctx))
	after, err := os.Stat(filepath.Join(dir, "l"))
	must(t, err)
	if os.SameFile(before, after) {
		t.Error("the lock is on the file that was deleted")
	}
	c := startAdvisory(t, dir, "hold l")
	want(t, "while another waits", l.Verify(ctx), nil)
	must(t, l.Release())
	c.hears("held")
	want(t, "after the other got it", tryAdvisory(t, r, "l", false), ErrBusy)
}

// Case 132: somebody deletes lock files that nobody holds.
func TestAdvisoryCollectedFiles(t *testing.T) {
	dir := t.TempDir()
	collector := startAdvisory(t, dir, "collect l")
	collector.hears("collecting")
	for range 10 {
		wantCount(t, dir, "l", 8, 50)
		collector.tell()
		said, err := collector.lines.ReadString('\n')
		must(t, err)
		if said != "0\n" {
			return
		}
	}
	t.Skip("the collector never found the lock free")
}

func init() { children["advisory collect"] = collectLockFiles }

// collectLockFiles says how many it has deleted whenever it is told to.
func collectLockFiles() {
	r, args := childRoot(), advisoryArgs()
	var collected atomic.Int64
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(collected.Load())
		}
	}()
	say("collecting")
	for {
		f, err := r.OpenFile(args[0], os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && r.Remove(args[0]) == nil {
			collected.Add(1)
		}
		f.Close()
	}
}

// Case 133: a child does not keep the lock, not even one that got the file.
func TestAdvisoryChildHoldsNothing(t *testing.T) {
	for _, passed := range []bool{false, true} {
		t.Run(fmt.Sprint("passed ", passed), func(t *testing.T) {
			dir := t.TempDir()
			r := openRoot(t, dir)
			l, err := AcquireAdvisory(context.Background(), r, "l", AdvisoryOptions{})
			must(t, err)
			cmd := exec.Command("sh", "-c", "echo started; read x")
			if passed {
				cmd.ExtraFiles = []*os.File{l.(*advisoryLock).a.file}
			}
			child := startCommand(t, cmd)
			child.hears("started")
			must(t, l.Release())
			must(t, flockCommand(t, "-n", filepath.Join(dir, "l"), "true").Run())
		})
	}
}

// Case 134: an unlock in a process that shares the open file ends the lock. The
// package never gives the file away; where the program found it, Verify tells.
func TestAdvisoryUnlockedByChild(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{})
	must(t, err)
	unlock := flockCommand(t, "-u", "3")
	unlock.ExtraFiles = []*os.File{l.(*advisoryLock).a.file}
	must(t, unlock.Run())
	thief := startAdvisory(t, dir, "hold l")
	thief.hears("held")
	want(t, "Verify", l.Verify(ctx), ErrCompromised)
	must(t, l.Release())
}

// Case 135: POSIX locks end when any descriptor of the file is closed. Case 141:
// what others wrote into the file stays.
func TestAdvisoryFileOpenedAndClosedElsewhere(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	path := filepath.Join(dir, "l")
	must(t, os.WriteFile(path, []byte("pid 12\n"), 0o640))
	must(t, os.Chmod(path, 0o640))
	l, err := AcquireAdvisory(context.Background(), r, "l", AdvisoryOptions{})
	must(t, err)
	data, err := os.ReadFile(path)
	must(t, err)
	if string(data) != "pid 12\n" {
		t.Errorf("content %q", data)
	}
	if flockCommand(t, "-n", path, "true").Run() == nil {
		t.Error("the lock is gone")
	}
	must(t, l.Release())
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != 0o640 || info.Size() != 7 {
		t.Errorf("mode %v, %d bytes", info.Mode(), info.Size())
	}
}

// Case 136: NFS wants a writable file for an exclusive lock.
func TestAdvisoryFileIsWritable(t *testing.T) {
	r := openRoot(t, t.TempDir())
	for _, shared := range []bool{false, true} {
		l, err := AcquireAdvisory(context.Background(), r, "l", AdvisoryOptions{Shared: shared})
		must(t, err)
		flags, err := unix.FcntlInt(l.(*advisoryLock).a.file.Fd(), unix.F_GETFL, 0)
		must(t, err)
		if flags&unix.O_ACCMODE != unix.O_RDWR {
			t.Errorf("open with flags %#x", flags)
		}
		cloexec, err := unix.FcntlInt(l.(*advisoryLock).a.file.Fd(), unix.F_GETFD, 0)
		must(t, err)
		if cloexec&unix.FD_CLOEXEC == 0 {
			t.Error("children inherit the file")
		}
		must(t, l.Release())
	}
}

// Case 138, and 142: failures that pass, and the same for ever.
func TestAdvisoryPersists(t *testing.T) {
	for _, c := range []struct {
		errno error
		times int
		want  error
	}{
		{unix.EDEADLK, 3, nil}, {unix.ENOLCK, 3, nil}, {errRestart, 3, nil}, {unix.EINTR, 10_000, nil},
		{unix.EDEADLK, 100, unix.EDEADLK}, {unix.ENOLCK, 100, unix.ENOLCK}, {errRestart, 100, errRestart},
		{unix.EIO, 1, unix.EIO}, {unix.EBADF, 1, unix.EBADF}, {unix.EWOULDBLOCK, 1, unix.EWOULDBLOCK},
	} {
		left := c.times - 1
		err := persist(c.errno, func() error {
			if left == 0 {
				return nil
			}
			left--
			return c.errno
		})
		if err != c.want {
			t.Errorf("%d times %v: %v, want %v", c.times, c.errno, err, c.want)
		}
	}
}

// Case 142: signals arrive while the kernel has the thread.
func TestAdvisorySignals(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGWINCH)
	defer signal.Stop(caught)
	other := startAdvisory(t, dir, "hold l")
	other.hears("held")
	line := advisoryLineOf(t, dir, "l")
	got := make(chan error)
	go func() {
		l, err := AcquireAdvisory(context.Background(), r, "l", AdvisoryOptions{})
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	line.untilBlocked(1)
	line.done()
	for range 2000 {
		must(t, unix.Kill(os.Getpid(), unix.SIGWINCH))
		must(t, unix.Kill(os.Getpid(), unix.SIGURG))
	}
	other.tell()
	must(t, <-got)
}

func TestAdvisoryContext(t *testing.T) {
	r, ctx := openRoot(t, t.TempDir()), context.Background()
	l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{Rank: 2})
	must(t, err)
	under := l.Context(ctx)
	_, err = TryAdvisory(under, r, "l", AdvisoryOptions{})
	want(t, "nested", err, ErrNested)
	_, err = TryAdvisory(under, r, "other", AdvisoryOptions{Rank: 1})
	want(t, "against the order", err, ErrOrder)
	must(t, l.Release())
	if !errors.Is(context.Cause(under), ErrReleased) || !errors.Is(context.Cause(l.Context(ctx)), ErrReleased) {
		t.Error("contexts outlive the lock")
	}
	want(t, "Verify", l.Verify(ctx), ErrReleased)
	again, err := TryAdvisory(context.WithoutCancel(under), r, "l", AdvisoryOptions{})
	must(t, err)
	must(t, again.Release())
}

// Somebody closed the descriptor behind our back, and opened another file.
func TestAdvisoryStolenDescriptor(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{})
	must(t, err)
	victim, err := os.Create(filepath.Join(dir, "victim"))
	must(t, err)
	must(t, unix.Dup2(int(victim.Fd()), int(l.(*advisoryLock).a.file.Fd())))
	want(t, "Verify", l.Verify(ctx), ErrCompromised)
	must(t, flockCommand(t, "-n", victim.Name(), "true").Run())
	number := int(l.(*advisoryLock).a.file.Fd())
	l.Release()
	if _, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0); err != nil {
		t.Errorf("a file of somebody else was closed: %v", err)
	}
}
