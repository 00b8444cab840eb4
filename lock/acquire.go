package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// acquisition has the front of its line and works on the record. Its steps are
// those of docs/locks.md.
type acquisition struct {
	*request
	wait      bool
	domain    *domain
	started   time.Time
	tries     int
	linked    int  // looks at a record with two names
	final     bool // the deadline has passed: one more attempt, no wait
	cand      *candidate
	published bool     // cand has the name of the record
	woken     *os.File // record or guard whose wait has ended, locked
	ofGuard   bool     // it is the guard
	hurried   int      // looks in a row without a pause
	denied    int      // answers as for a name that is being torn down
	watch     *watch
}

// maxDenied is how often one acquisition takes the answers that Windows gives
// for a name between its removal and the last close for contention.
const maxDenied = 8

func (m *Manager) acquire(q request, wait bool) (Lock, error) {
	q.o = q.o.over(&m.defaults)
	if err := q.o.complete(); err != nil {
		return nil, err
	}
	if err := q.inOrder(); err != nil {
		return nil, err
	}
	if errors.Is(q.ctx.Err(), context.Canceled) {
		return nil, context.Cause(q.ctx)
	}
	if err := q.locate(); err != nil {
		return nil, err
	}
	return m.enter(&q, wait)
}

// enter waits for the front of the line and acquires the record. A callback may
// panic: then too nothing is left behind.
func (m *Manager) enter(q *request, wait bool) (l Lock, err error) {
	defer func() {
		if l == nil {
			q.place.close()
		}
	}()
	started := time.Now()
	shared, holder, ok, err := m.domain().enter(q.ctx, q, wait)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, q.busyInside(holder, started)
	case shared != nil:
		q.place.close()
		return &handle{h: shared}, nil
	}
	defer func() {
		if l == nil {
			m.domain().leave(q.key)
		}
	}()
	a := &acquisition{request: q, wait: wait, domain: m.domain(), started: started}
	h, err := a.run()
	if err != nil {
		return nil, err
	}
	return &handle{h: h}, nil
}

// busyInside is the error of a call that did not get to the front.
func (q *request) busyInside(holder *hold, started time.Time) error {
	busy := &BusyError{LockPath: q.place.lockPath, Own: true, Waited: time.Since(started)}
	if holder != nil {
		busy.Payload, _ = parseObject(holder.text)
	}
	return q.ended(busy)
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
	if payload := q.payload; payload != nil {
		q.payload = nil
		return payload, nil
	}
	if q.o.Payload == nil {
		return defaultPayload(), nil
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
func (a *acquisition) run() (h *hold, err error) {
	defer func() {
		a.watch.close()
		if h == nil {
			if rerr := a.retreat(); rerr != nil {
				err = errors.Join(err, rerr)
			}
		}
	}()
	leave, err := a.queueUp()
	if err != nil {
		return nil, err
	}
	defer leave()
	a.final = a.ctx.Err() != nil
	for {
		a.tries++
		held, in, err := a.try()
		if err != nil && a.denied < maxDenied && tornDown(err) {
			a.denied++
			in, err = &obstacle{kind: unproved}, nil
		}
		switch {
		case err != nil:
			in.drop()
			return nil, err
		case held:
			return a.hold(), nil
		case in.own && a.underRecord(in.id):
			in.drop()
			return nil, ErrNested
		case !a.mayRetry():
			return nil, a.giveUp(in)
		}
		if err := a.await(in); err != nil {
			return nil, err
		}
	}
}

func (a *acquisition) mayRetry() bool {
	return a.wait && !a.final && (a.o.Retry.Attempts == 0 || a.tries < a.o.Retry.Attempts)
}

// giveUp says who is in the way.
func (a *acquisition) giveUp(in *obstacle) error {
	defer in.drop()
	busy := &BusyError{
		LockPath: a.place.lockPath, Guard: in.guard, Own: in.own, Attempts: a.tries, Waited: time.Since(a.started),
	}
	raw := in.raw
	if in.file != nil {
		if o, err := look(in.file); err == nil {
			raw, _ = readRecord(in.file, o.size)
		}
	}
	text, _, _ := splitRecord(raw)
	busy.Payload, _ = parseObject(text)
	return a.ended(busy)
}

// try makes one attempt, from the guard on, or from where a wait has ended.
func (a *acquisition) try() (held bool, _ *obstacle, _ error) {
	woken, ofGuard := a.woken, a.ofGuard
	a.woken, a.ofGuard = nil, false
	locked := woken
	if woken != nil && !ofGuard {
		if a.cand == nil {
			unlockClose(woken)
			return false, lookAgain, nil
		}
		if !a.mayKeepLocked(woken) {
			return a.inspect(woken)
		}
		defer func() { go unlockClose(woken) }()
		locked = nil
	}
	if in, err := a.passGuard(locked); err != nil || in != nil {
		return false, in, err
	}
	if a.published {
		return a.confirm()
	}
	if err := a.prepareCandidate(); err != nil {
		return false, nil, err
	}
	err := a.cand.publish(&a.place, a.place.leaf)
	switch {
	case err == nil:
		a.published = true
	case errors.Is(err, fs.ErrExist):
		return a.inspect(nil)
	case errors.Is(err, errSwept):
		return false, lookAgain, a.retreat()
	default:
		return false, nil, err
	}
	// Whoever is inside a guard that was made meanwhile may be about to remove
	// what had the name before, and must be done first.
	if in, err := a.passGuard(nil); err != nil || in != nil {
		return false, in, err
	}
	return a.confirm()
}

// mayKeepLocked tells that the file, whose lock a wait has brought, is the record
// no more. Who else waits for it may as well sleep on until the attempt is over,
// and then finds the next record to wait for instead of racing for the name. (A
// maker that kept the file and wants it back makes another one.) A callback of
// the caller's could make them wait for long.
func (a *acquisition) mayKeepLocked(f *os.File) bool {
	if !freesName || a.o.Payload != nil {
		return false
	}
	o, err := look(f)
	return err == nil && (o.nlink == 0 || gone(a.place.dir.CheckSame(a.place.leaf, f)))
}

// prepareCandidate makes the record, which is kept over attempts, and gives it
// the content of this one.
func (a *acquisition) prepareCandidate() error {
	payload, err := a.evaluate()
	if err != nil {
		return err
	}
	if a.cand == nil && a.o.KeepRecord {
		a.cand = a.domain.takeKept(&a.place)
	}
	if a.cand == nil {
		if a.cand, err = a.place.newCandidate(a.o.KeepRecord); err != nil {
			return err
		}
	}
	return a.cand.write(&a.place, payload, a.o.Durable)
}

// hold turns the published candidate into a lock.
func (a *acquisition) hold() *hold {
	h := &hold{
		domain: a.domain, key: a.key, place: a.place, record: a.cand, text: a.cand.payload, o: a.o, owner: a.o.Owner, byPath: a.byPath,
		target: a.target, since: time.Now(), refs: 1, lost: make(chan struct{}),
	}
	h.alive.Store(true)
	registry.add(h)
	h.monitor()
	a.domain.hold(a.key, h)
	return h
}
