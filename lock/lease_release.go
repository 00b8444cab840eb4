package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// releaseLimit bounds how long a release waits for a change under way and for
// transitions of others.
const releaseLimit = 10 * time.Second

// Release stops the beats, waits for one under way, removes the record and frees
// the fence, whose token stays. A lease that was lost is given up without touching
// what a successor has; the error says so and matches ErrLeaseLost. After any other
// error the lease is still held and renewed, and Release may be called again.
func (l *Lease) Release() error {
	if l.file == nil {
		return nil // never acquired
	}
	ended, err := l.release()
	if ended {
		<-l.done
	}
	return err
}

func (l *Lease) release() (ended bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	lost, err := l.giveUp(ctx)
	if err != nil {
		return false, &fs.PathError{Op: "unlock", Path: l.place.lockPath, Err: err}
	}
	l.end()
	return true, lost
}

// giveUp frees the fence and removes the record, if they are still this lease's.
// lost is why they were not.
func (l *Lease) giveUp(ctx context.Context) (lost, err error) {
	unlock, err := l.file.exclusive(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	lost = l.standing()
	v, err := l.mine()
	if err != nil {
		if why := l.loss(); why != nil {
			return why, nil
		}
		return nil, err
	}
	if err := l.removeRecord(lost != nil); err != nil {
		return nil, err
	}
	if why := l.loss(); why != nil {
		lost = why
	}
	free := v.fenceSlot
	free.state = slotFree
	return lost, l.file.advance(v, free)
}

// removeRecord takes the name away from this lease's file. A peer may have taken a
// record that was not renewed for stale, and be at work on it: that is what the
// guard is for.
func (l *Lease) removeRecord(old bool) (err error) {
	if old {
		guard, err := l.place.takeGuard()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.place.removeGuard(guard)) }()
	}
	raw, err := readRecord(l.recordOf, int64(len(l.written)))
	if err == nil && l.written != nil && string(raw) != string(l.written) {
		err = errRewritten
	}
	if err == nil {
		err = l.place.dir.RemoveSame(l.place.leaf, l.recordOf)
	}
	if gone(err) {
		l.recordLoss(err)
		return nil
	}
	return err
}

// end closes what the lease has open. It needs mu. A beat that comes now finds it
// released; the loop ends by itself.
func (l *Lease) end() {
	l.released = true
	l.alive.Store(false)
	close(l.stop)
	l.exit.Cancel()
	l.ctxs.end(ErrReleased)
	l.recordOf.Close()
	l.fence.Close()
	l.file.close()
	l.place.close()
}

// cleanUp releases the lease when the program ends in order; see exitcleanup.
func (l *Lease) cleanUp(context.Context) error {
	if err := l.Release(); err != nil {
		return fmt.Errorf("%s: %w", l.place.lockPath, err)
	}
	return nil
}
