// Package state keeps JSON files that several processes read, change and write.
//
// Update is a read-modify-write under a lock: no update is lost, and readers see
// the old content or the new one. Fragments are for writers that need no lock,
// because each has a file of its own; Merge folds them into the state.
//
// The lock is package lock's sidecar, or its lease, whose fence keeps a holder
// that stood still from writing over its successor. Who writes the file without
// either is not kept out.
package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// Options are the options of Update and Merge. The zero value waits 10 s for a
// sidecar lock.
type Options struct {
	// Lock has the options of the sidecar lock.
	Lock lock.Options
	// Lease, when it is not nil, makes the lock a lease, and the write one that the
	// lease's fence refuses once it was superseded. Its Timeout is not used.
	Lease *lock.LeaseOptions
	// Rank is that of lock.Options, for both kinds: the order of nested updates of
	// different files is the caller's contract, and this declares it.
	Rank int
	// Timeout bounds the wait for the lock: 10 s if zero, lock.Never for no bound
	// but the context's. Then the error matches lock.ErrBusy.
	Timeout time.Duration
	// Mode, Durability and MaxBytes are those of caproot.PutOptions.
	Mode       fs.FileMode
	Durability caproot.Durability
	MaxBytes   int64
	// Parents makes missing directories of the file, with mode 0700. Without it
	// they are an error that matches fs.ErrNotExist.
	Parents bool
}

const defaultTimeout = 10 * time.Second

// maxMoved bounds how often the file may turn out to be another one when its
// lock is held.
const maxMoved = 100

// UpdateBytes is Update for content that is not JSON. The function gets the
// content, nil when there is no file, and returns the new one; what is equal to
// the old one is not written.
func UpdateBytes(ctx context.Context, r *caproot.Root, name string, f func(ctx context.Context, old []byte) ([]byte, error), o Options) (err error) {
	u, err := o.begin(ctx, r, name)
	if err != nil {
		return err
	}
	defer func() {
		if eerr := u.end(); eerr != nil {
			err = errors.Join(err, eerr)
		}
	}()
	old, err := readFile(r, u.target, o.MaxBytes)
	if err != nil {
		return err
	}
	updated, err := f(u.lock.Context(ctx), old)
	if err != nil {
		return err
	}
	if old != nil && string(updated) == string(old) {
		return nil
	}
	// A lease is compared again by the fence, at the write.
	if err := u.lock.Verify(ctx); err != nil {
		return err
	}
	_, err = u.root.Put(u.target, updated, caproot.PutOptions{Mode: o.Mode, Durability: o.Durability, MaxBytes: o.MaxBytes})
	return err
}

// update is one update that has its lock.
type update struct {
	lock   lock.Lock
	root   *caproot.Root // to write through
	fenced bool
	target string
}

// begin locks the canonical target, so that two spellings take turns.
// valid returns lock.ErrOption for what is out of its range.
func (o *Options) valid() error {
	switch {
	case o.Timeout < 0:
		return fmt.Errorf("%w: Timeout %v", lock.ErrOption, o.Timeout)
	case o.Durability > caproot.DurabilityVolatile:
		return fmt.Errorf("%w: Durability %d", lock.ErrOption, o.Durability)
	case o.MaxBytes < 0:
		return fmt.Errorf("%w: MaxBytes %d", lock.ErrOption, o.MaxBytes)
	case o.Lease != nil:
		return o.Lease.Check()
	}
	return o.Lock.Check()
}

func (o *Options) begin(ctx context.Context, r *caproot.Root, name string) (*update, error) {
	if err := o.valid(); err != nil {
		return nil, err
	}
	for range maxMoved {
		target, err := r.Target(name)
		if o.Parents && errors.Is(err, fs.ErrNotExist) {
			if err = r.MkdirAll(path.Dir(name), 0o700); err == nil {
				target, err = r.Target(name)
			}
		}
		if err != nil {
			return nil, err
		}
		u, err := o.acquire(ctx, r, target)
		if err != nil {
			return nil, err
		}
		now, err := r.Target(name)
		if err == nil && now == target {
			return u, nil
		}
		if err = errors.Join(err, u.end()); err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "update", Path: name, Err: caproot.ErrUnstable}
}

func (o *Options) acquire(ctx context.Context, r *caproot.Root, target string) (*update, error) {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if o.Lease != nil {
		return o.acquireLease(ctx, r, target, timeout)
	}
	lo := o.Lock
	if lo.Rank == 0 {
		lo.Rank = o.Rank
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l, err := lock.Acquire(wait, r, target, lo)
	if err != nil {
		return nil, err
	}
	return &update{lock: l, root: r, target: target}, nil
}

func (o *Options) acquireLease(ctx context.Context, r *caproot.Root, target string, timeout time.Duration) (*update, error) {
	lo := *o.Lease
	lo.Timeout = timeout
	if lo.Rank == 0 {
		lo.Rank = o.Rank
	}
	l, err := lock.AcquireLease(ctx, r, target, lo)
	if err != nil {
		return nil, err
	}
	fenced, err := r.Fenced(l)
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return &update{lock: l, root: fenced, fenced: true, target: target}, nil
}

func (u *update) end() error {
	err := u.lock.Release()
	if u.fenced {
		err = errors.Join(err, u.root.Close())
	}
	return err
}

// readFile returns nil when there is no file, and content that is not nil when
// there is an empty one.
func readFile(r *caproot.Root, target string, limit int64) (data []byte, err error) {
	f, err := r.OpenFileNoFollow(target, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := r.Policy().MaxReadBytes
	if limit > 0 {
		most = min(most, limit)
	}
	if most == caproot.NoLimit {
		most--
	}
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: target, Err: caproot.ErrTooLarge}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
