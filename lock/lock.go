// Package lock excludes processes from each other by a record beside the file
// that they work on.
//
// The record of a target NAME is the file NAME.lock. Its holder keeps it open
// and holds the operating system's lock on it, which the kernel drops when the
// holder dies, by SIGKILL too. Whoever then gets that lock has proof, and
// removes the record; a live holder is never robbed, however old its record.
// Where the file system's locks prove nothing, and for records of the
// @openclaw/fs-safe package for Node, with which this one excludes mutually,
// nothing is removed without the caller's approval.
//
// Everything on disk happens through a caproot.Root, by its rights. The package
// needs Read, List, Create and Remove.
package lock

import (
	"context"
	"errors"

	"github.com/caproot/caproot"
)

// Lock is a lock that is held. Its methods are safe for concurrent use.
type Lock interface {
	// Verify returns nil while the record is still this holder's and nobody took
	// the operating system's lock on it. It returns ErrCompromised when that is
	// so no more, and the system's error when it could not find out.
	Verify(ctx context.Context) error
	// Lost returns a channel that is closed when monitoring finds the lock
	// compromised; see Options.CheckInterval.
	Lost() <-chan struct{}
	// Token is the fencing token, 0 where the kind of lock has none.
	Token() uint64
	// Context derives a context that is cancelled when the lock is lost or this
	// handle is released. An acquisition under it knows that the lock is held:
	// of the same target it fails with ErrNested instead of waiting for ever.
	Context(parent context.Context) context.Context
	// Release removes the record if it is still this holder's, and returns
	// ErrCompromised if it is not; the lock is given up in both cases. After any
	// other error the lock is still held, and Release may be called again. Once
	// released, it does nothing.
	Release() error
}

// Acquire acquires the lock of target, a name below r, in the default domain.
// It waits until ctx ends or the attempts run out; then the error matches
// ErrBusy. A deadline that has passed already still gives one attempt.
//
// Missing directories of the record are made through r. The target need not
// exist, and is never opened.
func Acquire(ctx context.Context, r *caproot.Root, target string, o Options) (Lock, error) {
	return defaultManager.Acquire(ctx, r, target, o)
}

// TryAcquire is Acquire with one attempt and no waiting.
func TryAcquire(ctx context.Context, r *caproot.Root, target string, o Options) (Lock, error) {
	return defaultManager.TryAcquire(ctx, r, target, o)
}

// AcquirePath is Acquire for a path of the host, for callers without a Root.
// Links in the directory part are followed; missing parents of the target are
// made, those of an explicit LockPath are not. A relative path is fixed when
// the call is made.
func AcquirePath(ctx context.Context, path string, o Options) (Lock, error) {
	return defaultManager.AcquirePath(ctx, path, o)
}

// With calls f under the lock and releases it, also when f panics. The context
// of f is that of Lock.Context. Errors of f and of the release are both
// reported.
func With(ctx context.Context, r *caproot.Root, target string, o Options, f func(ctx context.Context) error) error {
	return defaultManager.With(ctx, r, target, o, f)
}

// With is the package's With in the manager's domain.
func (m *Manager) With(ctx context.Context, r *caproot.Root, target string, o Options, f func(ctx context.Context) error) (err error) {
	l, err := m.Acquire(ctx, r, target, o)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := l.Release(); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return f(l.Context(ctx))
}
