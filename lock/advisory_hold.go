package lock

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/caproot/caproot"
)

// advisoryLock is a held lock on an AdvisoryFile.
type advisoryLock struct {
	a      *AdvisoryFile
	rank   int
	ctxs   contexts
	alive  atomic.Bool // until released
	shared bool
	closes bool // the file goes with the lock
}

var _ Lock = (*advisoryLock)(nil)

// Lost is never closed: nothing watches, and what takes a lock of the kernel from
// a living process is a defect of that process. Verify finds it.
func (l *advisoryLock) Lost() <-chan struct{} { return nil }

func (l *advisoryLock) Token() uint64 { return 0 }

func (l *advisoryLock) Context(parent context.Context) context.Context {
	k := l.a.line.key()
	return l.ctxs.derive(within(parent, ancestor{key: k, record: k, rank: l.rank, alive: &l.alive}))
}

// Verify compares the file with what has its name, and asks the kernel for the
// lock.
func (l *advisoryLock) Verify(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	line := l.a.line
	line.mu.Lock()
	defer line.mu.Unlock()
	if !l.alive.Load() {
		return ErrReleased
	}
	err := line.verify(l.a, l.shared)
	if err == nil {
		err = l.a.checkName()
	}
	if err == errLocked || errors.Is(err, fs.ErrNotExist) || errors.Is(err, caproot.ErrChanged) {
		return compromised(l.a.name, err)
	}
	return err
}

func (l *advisoryLock) Release() error {
	line := l.a.line
	line.mu.Lock()
	defer line.mu.Unlock()
	if !l.alive.Load() {
		return nil
	}
	err := line.release(l.a, l.shared)
	if err != nil && !errors.Is(err, caproot.ErrChanged) {
		return err
	}
	l.alive.Store(false)
	l.ctxs.end(ErrReleased)
	if err != nil {
		err = compromised(l.a.name, err)
	}
	if l.closes {
		err = errors.Join(err, l.a.close())
	}
	return err
}
