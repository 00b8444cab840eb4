package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/caproot/caproot"
)

// advisoryNote is the content of a lock file that this package makes.
const advisoryNote = "Lock file: programs take turns by the system's lock on it. It may be deleted when none of them runs.\n"

// maxReplaced bounds how often an acquisition starts again because the lock
// file was deleted or replaced meanwhile: each time somebody else made progress.
const maxReplaced = 1000

// AdvisoryOptions are the options of an advisory lock.
type AdvisoryOptions struct {
	// Shared allows other shared locks beside this one. A shared lock does not
	// become an exclusive one: release it, acquire the other, and look again at
	// what you knew, because somebody else may have had the lock in between.
	// To acquire while holding waits for oneself; under Lock.Context it is ErrNested.
	Shared bool
	// Rank is that of Options.
	Rank int
}

// AcquireAdvisory acquires the operating system's lock on the file name below r:
// flock(2) on Unix, which flock(1) takes too, LockFileEx on Windows. The file is
// made once, mode 0600, with a line for people, and never deleted or truncated;
// its content means nothing, and its directory must exist.
//
// The kernel drops the lock when the process ends, however it ends. It binds
// only those who ask for it, on one machine; over a network file system it is
// worth what that makes of it. Within the process the order is first come, first
// served, shared ones together; between processes there is no order.
//
// It waits until ctx ends: for its deadline the error matches ErrBusy. Somebody
// who deletes or replaces the file while nobody holds it does no harm: what was
// locked is compared with what has the name, and it starts again. It returns
// ErrUnstable when that happens without end, ErrSymlink for a link, ErrSpecial
// for what is not a file, and the system's error when the lock cannot be had for
// another reason than its holder. It needs the rights Read, List, Modify and, to
// make the file, Create.
func AcquireAdvisory(ctx context.Context, r *caproot.Root, name string, o AdvisoryOptions) (Lock, error) {
	return acquireAdvisory(ctx, r, name, o, true)
}

// TryAdvisory is AcquireAdvisory without waiting.
func TryAdvisory(ctx context.Context, r *caproot.Root, name string, o AdvisoryOptions) (Lock, error) {
	return acquireAdvisory(ctx, r, name, o, false)
}

func acquireAdvisory(ctx context.Context, r *caproot.Root, name string, o AdvisoryOptions, wait bool) (Lock, error) {
	for range maxReplaced {
		f, err := OpenAdvisory(r, name)
		if err != nil {
			return nil, err
		}
		l, err := f.acquire(ctx, o, wait)
		if err == nil {
			l.closes = true
			if err = f.checkName(); err == nil {
				return l, nil
			}
			if rerr := l.Release(); rerr != nil {
				return nil, errors.Join(err, rerr)
			}
		}
		f.Close()
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, caproot.ErrChanged) {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: caproot.ErrUnstable}
}

// AdvisoryFile is a lock file that is kept open, for locks that are taken often.
// Its methods are safe for concurrent use, and its locks are those of
// AcquireAdvisory.
//
// The file must not be deleted or replaced while it is kept open: acquisitions do
// not compare, and would lock what nobody else finds. Lock.Verify compares.
type AdvisoryFile struct {
	r    *caproot.Root
	name string
	line *advisoryLine

	// Guarded by line.mu.
	file   *os.File // nil after a wait was given up with it
	shared int      // locks on it
	users  int      // acquisitions and locks
	closed bool
}

// OpenAdvisory opens the lock file name below r and makes it if it is missing.
// The root must stay open as long as the file.
func OpenAdvisory(r *caproot.Root, name string) (*AdvisoryFile, error) {
	f, id, err := openAdvisory(r, name)
	if err != nil {
		return nil, err
	}
	a := &AdvisoryFile{r: r, name: name, file: f}
	advisoryLines.add(a, id)
	return a, nil
}

// Acquire is AcquireAdvisory on this file. It returns fs.ErrClosed after Close,
// and ErrChanged if it had to open the file again and found another one.
func (a *AdvisoryFile) Acquire(ctx context.Context, o AdvisoryOptions) (Lock, error) {
	return asLock(a.acquire(ctx, o, true))
}

// TryAcquire is Acquire without waiting.
func (a *AdvisoryFile) TryAcquire(ctx context.Context, o AdvisoryOptions) (Lock, error) {
	return asLock(a.acquire(ctx, o, false))
}

func asLock(l *advisoryLock, err error) (Lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close gives the file back. Locks on it stay; the last release closes it.
func (a *AdvisoryFile) Close() error {
	if a.line == nil {
		return nil
	}
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	return a.close()
}

// close needs line.mu.
func (a *AdvisoryFile) close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	return a.closeUnused()
}

// leave needs line.mu. It ends one use.
func (a *AdvisoryFile) leave() {
	a.users--
	a.closeUnused()
}

// closeUnused needs line.mu.
func (a *AdvisoryFile) closeUnused() error {
	if !a.closed || a.users > 0 {
		return nil
	}
	advisoryLines.remove(a)
	return a.line.closeFile(a.file)
}

func (a *AdvisoryFile) acquire(ctx context.Context, o AdvisoryOptions, wait bool) (*advisoryLock, error) {
	if a.line == nil {
		return nil, &fs.PathError{Op: "lock", Path: a.name, Err: fs.ErrClosed}
	}
	if ctx.Value(ancestryKey{}) != nil {
		q := request{ctx: ctx, o: Options{Rank: o.Rank}, key: a.line.key()}
		if err := q.inOrder(); err != nil {
			return nil, err
		}
		if q.nested() {
			return nil, ErrNested
		}
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, context.Cause(ctx)
	}
	held, waited, err := a.line.obtain(ctx, a, o.Shared, wait)
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: a.name, Err: err}
	}
	if !held {
		q := request{ctx: ctx}
		return nil, q.ended(&BusyError{LockPath: a.name, Own: a.line.heldHere(), Attempts: 1, Waited: waited})
	}
	l := &advisoryLock{a: a, shared: o.Shared, rank: o.Rank}
	l.alive.Store(true)
	return l, nil
}

// openAdvisory returns the lock file, open for reading and writing: for the lock
// itself NFS and some FUSE file systems want it writable.
func openAdvisory(r *caproot.Root, name string) (*os.File, recordID, error) {
	if r == nil {
		return nil, recordID{}, errNoRoot("lock", name)
	}
	for range maxReplaced {
		f, err := r.OpenFileNoFollow(name, os.O_RDWR|openNonBlocking, 0)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = r.Put(name, []byte(advisoryNote), caproot.PutOptions{Mode: 0o600, NoReplace: true})
			if err == nil || errors.Is(err, fs.ErrExist) {
				continue
			}
		}
		if err != nil {
			return nil, recordID{}, err
		}
		o, err := look(f)
		if err == nil && !o.regular {
			err = &fs.PathError{Op: "lock", Path: name, Err: caproot.ErrSpecial}
		}
		if err != nil {
			return nil, recordID{}, errors.Join(err, f.Close())
		}
		return f, o.id, nil
	}
	return nil, recordID{}, &fs.PathError{Op: "lock", Path: name, Err: caproot.ErrUnstable}
}

// reopen replaces a file that an abandoned wait has kept.
func (a *AdvisoryFile) reopen() (*os.File, error) {
	f, id, err := openAdvisory(a.r, a.name)
	if err == nil && id != a.line.id {
		err = errors.Join(caproot.ErrChanged, f.Close())
	}
	return f, err
}

// checkName compares the file that is locked with what has the name. A second
// name does not matter: it leads to the same lock.
func (a *AdvisoryFile) checkName() error {
	err := a.r.CheckSame(a.name, a.file)
	if errors.Is(err, caproot.ErrHardlink) {
		return nil
	}
	return err
}
