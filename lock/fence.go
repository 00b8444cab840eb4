package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/caproot/caproot"
)

// Fence lets changes pass as long as its token is the highest that was issued for
// a resource. It is a caproot.Fence: pass it to Root.Fenced. A Lease is one too.
//
// A passage takes a shared lock on the resource's fence file and compares the
// token in it with its own; to issue a token takes the exclusive one. So when a
// higher token has been issued, no change with a lower one is under way, and none
// begins. A process that is stopped within a passage, which is one call of the
// kernel, keeps a successor waiting until it goes on or dies.
//
// Not covered: writers that do not use a fenced Root; files, descriptors and
// memory maps that one has handed out; requests that a network client had sent
// before it was cut off; storage that loses what it was told to keep; a fence
// file that was replaced by an old copy of itself.
type Fence struct {
	file  *fenceFile
	token uint64
	// holds is asked within the passage, after the token. It returns why the
	// holder has nothing any more, or nil.
	holds func() error

	turn   sync.Mutex // held to pass the turnstile, whose file is one for all
	mu     sync.Mutex
	idle   sync.Cond // of mu: nobody is inside
	inside int
}

func holdFence(file *fenceFile, token uint64, holds func() error) *Fence {
	f := &Fence{file: file, token: token, holds: holds}
	f.idle.L = &f.mu
	return f
}

var _ caproot.Fence = (*Fence)(nil)

// FenceAt returns the fence of resource, a name below r, for a token that
// something else issued, a lock service for instance: it must be greater than
// every token issued before. It returns ErrFenced if a higher one has been seen.
// A resource has leases or tokens from elsewhere, never both: that is ErrOption.
func FenceAt(ctx context.Context, r *caproot.Root, resource string, token uint64) (*Fence, error) {
	q := request{ctx: ctx, r: r, target: resource}
	lockPath, err := q.admit()
	if err == nil {
		err = q.openPlace(lockPath)
	}
	if err != nil {
		return nil, err
	}
	defer q.place.close()
	file, err := openFence(r, q.place.lockPath)
	if err != nil {
		return nil, err
	}
	if err := file.raise(ctx, token); err != nil {
		return nil, errors.Join(err, file.close())
	}
	return holdFence(file, token, func() error { return nil }), nil
}

// raise makes a token from elsewhere the stored one.
func (f *fenceFile) raise(ctx context.Context, token uint64) (err error) {
	if token == 0 {
		return fmt.Errorf("%w: token 0", ErrOption)
	}
	unlock, err := f.exclusive(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	v, err := f.current()
	switch {
	case err != nil:
		return err
	case v.state != slotExternal && v.token != 0:
		return fmt.Errorf("%w: the resource has leases", ErrOption)
	case v.token > token:
		return ErrFenced
	case v.token == token:
		return nil
	}
	return f.advance(&v, fenceSlot{token: token, state: slotExternal})
}

// Token is the token that is compared.
func (f *Fence) Token() uint64 {
	if f == nil {
		return 0
	}
	return f.token
}

// Close gives the fence file back, after the passages under way. A later one is
// refused.
func (f *Fence) Close() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	if f.file == nil {
		return nil
	}
	f.mu.Lock()
	for f.inside > 0 {
		f.idle.Wait()
	}
	f.mu.Unlock()
	err := f.file.close()
	f.file = nil
	return err
}

// Enter lets one change pass. It returns ErrFenced when a higher token was issued
// or the holder has released, ErrFenceLost when the fence file is not what it was,
// ErrLeaseLost when the lease has run out although nobody has taken it yet. It
// waits for a transition under way.
func (f *Fence) Enter() (leave func(), err error) {
	if f == nil {
		return nil, fmt.Errorf("%w: %w", ErrFenced, ErrReleased)
	}
	file, err := f.join()
	if err != nil {
		return nil, err
	}
	leave = func() { f.leave(file) }
	if err := f.compare(file); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// join takes the shared lock, which all changes of this process have in common,
// but each of them passes the turnstile.
func (f *Fence) join() (_ *fenceFile, err error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	file := f.file
	if file == nil {
		return nil, fmt.Errorf("%w: %w", ErrFenced, ErrReleased)
	}
	if err := lockFile(file.turn, false, true, false); err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.inside == 0 {
		err = lockFile(file.file, true, true, false)
	}
	if err == nil {
		f.inside++
	}
	f.mu.Unlock()
	if uerr := unlockFile(file.turn, file.local); uerr != nil && err == nil {
		f.leave(file)
		err = uerr
	}
	return file, err
}

func (f *Fence) leave(file *fenceFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inside--; f.inside == 0 {
		// A failure leaves the lock, which keeps successors waiting but harms nobody.
		unlockFile(file.file, file.local)
		f.idle.Broadcast()
	}
}

func (f *Fence) compare(file *fenceFile) error {
	v, err := file.current()
	switch {
	case err != nil:
		return err
	case v.token > f.token:
		return fmt.Errorf("%w: it is %d, and %d was issued", ErrFenced, f.token, v.token)
	case v.token < f.token:
		return fmt.Errorf("%w: it knows token %d and not %d", ErrFenceLost, v.token, f.token)
	case v.state == slotFree:
		return fmt.Errorf("%w: %w", ErrFenced, ErrReleased)
	}
	return f.holds()
}
