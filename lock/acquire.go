package lock

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// acquisition has the front of its line and works on the record.
type acquisition struct {
	*request
	wait    bool
	domain  *domain
	cand    *candidate
	tries   int
	started time.Time
	alive   atomic.Bool
}

func (m *Manager) acquire(q request, wait bool) (Lock, error) {
	q.o = q.o.over(&m.defaults)
	if err := q.o.complete(); err != nil {
		return nil, err
	}
	if err := q.inOrder(); err != nil {
		return nil, err
	}
	if err := context.Cause(q.ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	if err := q.locate(); err != nil {
		return nil, err
	}
	started := time.Now()
	shared, holder, ok, err := m.domain.enter(q.ctx, &q, wait)
	switch {
	case err != nil:
	case !ok:
		err = q.busyInside(holder, started)
	case shared != nil:
		q.place.close()
		return &handle{h: shared}, nil
	}
	if err != nil {
		q.place.close()
		return nil, err
	}
	a := &acquisition{request: &q, wait: wait, domain: m.domain, started: started}
	h, err := a.run()
	if err != nil {
		m.domain.leave(q.key)
		q.place.close()
		return nil, err
	}
	return &handle{h: h}, nil
}

// busyInside is the error of a call that did not get to the front.
func (q *request) busyInside(holder *hold, started time.Time) error {
	err := &BusyError{LockPath: q.place.lockPath, Own: true, Waited: time.Since(started)}
	if holder != nil {
		payload, _, _ := splitRecord(holder.record.bytes)
		err.Payload, _ = parseObject(payload)
	}
	return q.ended(err)
}

// ended completes a busy error, unless the caller gave up by itself.
func (q *request) ended(busy *BusyError) error {
	busy.Err = q.ctx.Err()
	if errors.Is(busy.Err, context.Canceled) {
		return context.Cause(q.ctx)
	}
	return busy
}

// evaluate asks for the payload of one attempt.
func (q *request) evaluate() ([]byte, error) {
	if q.payload != nil {
		payload := q.payload
		q.payload = nil
		return payload, nil
	}
	if q.o.Payload == nil {
		return encodeFitting(defaultPayload())
	}
	var alive atomic.Bool
	alive.Store(true)
	defer alive.Store(false)
	ctx := within(q.ctx, ancestor{key: q.key, record: q.place.key(), rank: q.o.Rank, alive: &alive})
	payload, err := q.o.Payload(ctx)
	if err != nil {
		return nil, err
	}
	return encodeFitting(payload)
}

// run tries until the lock is held, or there is no reason to go on.
func (a *acquisition) run() (*hold, error) {
	defer a.dropCandidate()
	for {
		a.tries++
		held, err := a.try()
		if err != nil {
			return nil, err
		}
		if held {
			return a.hold(), nil
		}
		if !a.mayRetry() {
			return nil, a.ended(&BusyError{LockPath: a.place.lockPath, Attempts: a.tries, Waited: time.Since(a.started)})
		}
		a.sleep()
	}
}

func (a *acquisition) mayRetry() bool {
	return a.wait && a.ctx.Err() == nil && (a.o.Retry.Attempts == 0 || a.tries < a.o.Retry.Attempts)
}

func (a *acquisition) sleep() {
	t := time.NewTimer(a.delay())
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.ctx.Done():
	}
}

func (a *acquisition) delay() time.Duration {
	r := &a.o.Retry
	delay := min(float64(r.Max), float64(r.Min)*math.Pow(r.Factor, float64(a.tries-1)))
	if r.Jitter {
		delay = min(float64(r.Max), delay*(1+rand.Float64()))
	}
	return time.Duration(delay)
}

// try makes one attempt.
func (a *acquisition) try() (held bool, err error) {
	exists, err := a.place.dir.Lexists(a.place.guard())
	if err != nil || exists {
		return false, err
	}
	if err := a.prepareCandidate(); err != nil {
		return false, err
	}
	err = a.cand.publish(&a.place, a.place.leaf)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, a.cand.is(&a.place, a.place.leaf)
}

func (a *acquisition) prepareCandidate() error {
	payload, err := a.evaluate()
	if err != nil {
		return err
	}
	if a.cand == nil {
		if a.o.KeepRecord {
			a.cand = a.domain.takeKept(&a.place)
		}
		if a.cand == nil {
			if a.cand, err = a.place.newCandidate(a.o.KeepRecord); err != nil {
				return err
			}
		}
	}
	return a.cand.write(&a.place, payload, a.o.Durable)
}

func (a *acquisition) dropCandidate() {
	if a.cand != nil {
		a.cand.discard(&a.place)
	}
}

// hold turns the published candidate into a lock.
func (a *acquisition) hold() *hold {
	h := &hold{
		domain: a.domain, key: a.key, place: a.place, record: a.cand, o: a.o, owner: a.o.Owner, byPath: a.byPath,
		target: a.target, since: time.Now(), refs: 1, lost: make(chan struct{}),
	}
	a.cand = nil
	h.alive.Store(true)
	registry.add(h)
	h.monitor()
	a.domain.hold(a.key, h)
	return h
}
