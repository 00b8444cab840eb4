package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// beatLoop renews the lease until it is stopped or lost. A renewal that fails is
// tried again at the next beat: only proof, or the end of the time, loses a lease.
func (l *Lease) beatLoop() {
	defer close(l.done)
	t := time.NewTimer(l.o.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
		}
		left, ok := l.beat()
		if !ok {
			return
		}
		t.Reset(min(l.o.Heartbeat, left))
	}
}

// beat is one renewal. It returns the time that is left, and false when there is
// nothing to renew any more.
func (l *Lease) beat() (left time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released || l.standing() != nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), l.left(), errNotRenewed)
	defer cancel()
	err := l.renew(ctx, l.record.TTL())
	if l.standing() != nil {
		return 0, false
	}
	left = l.left()
	if err != nil && !l.late && l.o.OnLate != nil {
		go l.o.OnLate(err, left)
	}
	l.late = err != nil
	return left, true
}

// left is the time until the lease runs out.
func (l *Lease) left() time.Duration {
	now, err := l.clock.now()
	if err != nil {
		return 0
	}
	return max(0, time.Duration(l.expiry.Load())-now)
}

// renew extends the lease from now. It needs mu. Fence and record are looked at
// and written in one transition, so nobody takes over in between.
func (l *Lease) renew(ctx context.Context, ttl time.Duration) (err error) {
	if err := l.standing(); err != nil {
		return err
	}
	start, err := l.clock.now()
	if err != nil {
		return err
	}
	unlock, err := l.file.exclusive(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	v, err := l.mine()
	if err != nil {
		return err
	}
	record := l.record
	record.HeartbeatAt, record.TTLMs = time.Now(), ttl.Milliseconds()
	if err := l.rewrite(&record); err != nil {
		return err
	}
	if v.ttl != ttl {
		next := v.fenceSlot
		next.ttl = ttl
		if err := l.file.advance(v, next); err != nil {
			return err
		}
	}
	if err := l.file.beat(l.id, l.beats+1); err != nil {
		return err
	}
	// A renewal that ends after the time was up is none: somebody may have been
	// told so.
	if err := l.standing(); err != nil {
		return err
	}
	l.beats++
	l.record = record
	l.expiry.Store(int64(start + ttl))
	return nil
}

// mine reads the fence, and loses the lease when another one has it. It needs the
// exclusive lock.
func (l *Lease) mine() (*fenceView, error) {
	v, err := l.file.current()
	switch {
	case errors.Is(err, ErrFenceLost):
		return nil, l.lose(fmt.Errorf("%w: %w", ErrLeaseLost, err))
	case err != nil:
		return nil, err
	case v.holder != l.id || v.state != slotHeld || v.token != l.Token():
		return nil, l.lose(fmt.Errorf("%w: %w, with token %d", ErrLeaseLost, errEvicted, v.token))
	}
	return &v, nil
}

// rewrite puts the record into its file, at once and whole, if the file has its
// name and holds this lease's record. A torn one, which somebody else must have
// made, is left for the next beat to find whole or for the time to run out.
func (l *Lease) rewrite(record *LeaseRecord) error {
	if err := l.recordLoss(l.place.dir.CheckSame(l.place.leaf, l.recordOf)); err != nil {
		return err
	}
	o, err := look(l.recordOf)
	if err != nil {
		return err
	}
	raw, err := readRecord(l.recordOf, o.size)
	if err != nil {
		return err
	}
	switch now, ok := parseLease(raw); {
	case !ok:
		return &RecordError{l.place.lockPath, errTorn}
	case now.LockID != l.record.LockID:
		return l.recordLoss(errRewritten)
	}
	text, err := record.encode(l.token)
	if err != nil {
		return err
	}
	l.written = nil
	if _, err := l.recordOf.WriteAt(text, 0); err != nil {
		return err
	}
	if o.size != int64(len(text)) {
		if err := l.recordOf.Truncate(int64(len(text))); err != nil {
			return err
		}
	}
	l.written = text
	return nil
}
