package lock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// hold is one record held on disk. Its handles share it.
type hold struct {
	domain *domain
	key    key
	place  place
	record *candidate
	text   []byte // the JSON of the record
	o      Options
	owner  string
	byPath bool
	target string
	since  time.Time
	alive  atomic.Bool // until released or forgotten
	lost   chan struct{}

	// Guarded by domain.mu.
	refs    int
	leaving bool // a release is at work

	mu      sync.Mutex           // held over every use of the record's file
	gone    bool                 // released or forgotten
	outcome error                // what handles answer once it is gone
	why     error                // of the loss that monitoring found
	told    map[*handle]struct{} // those with contexts
	check   *time.Timer
	fresh   time.Time // last refresh of the modification time
}

// handle is one reference to a hold.
type handle struct {
	h        *hold
	mu       sync.Mutex
	released bool
	ctxs     contexts
}

var _ Lock = (*handle)(nil)

func (l *handle) Lost() <-chan struct{} { return l.h.lost }

func (l *handle) Token() uint64 { return 0 }

func (l *handle) Verify(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	released := l.released
	l.mu.Unlock()
	if released {
		return ErrReleased
	}
	return l.h.verify()
}

func (l *handle) Context(parent context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.released {
		l.h.onLoss(l)
	}
	return l.ctxs.derive(within(parent, l.h.ancestor()))
}

func (l *handle) Release() error {
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return nil
	}
	ended, err := l.h.release(false)
	l.released = ended
	l.mu.Unlock()
	if ended {
		l.h.offLoss(l)
		l.ctxs.end(ErrReleased)
	}
	return err
}

func (h *hold) ancestor() ancestor {
	return ancestor{key: h.key, record: h.place.key(), rank: h.o.Rank, alive: &h.alive}
}

func (h *hold) entry() HeldEntry {
	h.domain.mu.Lock()
	refs := h.refs
	h.domain.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	return HeldEntry{
		Target: h.target, LockPath: h.place.lockPath, Owner: h.owner, Payload: bytes.Clone(h.text), Metadata: h.o.Metadata,
		Since: h.since, References: refs, Witness: h.record.witness, Lost: h.why,
	}
}

// release gives one reference up, or all of them, and the record with the last.
// Where it has not ended, the reference is still there.
func (h *hold) release(all bool) (ended bool, err error) {
	d := h.domain
	d.mu.Lock()
	if !all && h.refs > 1 {
		h.refs--
		d.mu.Unlock()
		return true, nil
	}
	h.leaving = true
	d.mu.Unlock()
	ended, err = h.withdraw()
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.leaving = false; ended {
		h.leaveLine()
	}
	return ended, err
}

// leaveLine lets the next one in. It needs domain.mu.
func (h *hold) leaveLine() {
	d := h.domain
	if _, held := d.holds[h]; held {
		h.refs = 0
		delete(d.holds, h)
		d.leaveLocked(h.key)
	}
}

func (h *hold) withdraw() (ended bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return true, h.outcome
	}
	if ended, err = h.removeRecord(); ended {
		h.end(nil)
	}
	return ended, err
}

// end closes what the hold has open. It needs mu.
func (h *hold) end(outcome error) {
	h.gone, h.outcome = true, outcome
	h.alive.Store(false)
	h.stopTimers()
	h.endContexts(cmp.Or(outcome, ErrReleased))
	registry.remove(h)
	h.place.close()
}

// forget is the end without the removal.
func (h *hold) forget() {
	h.mu.Lock()
	if !h.gone {
		h.record.abandon()
		h.end(compromised(h.place.lockPath, errForgotten))
	}
	h.mu.Unlock()
	h.domain.mu.Lock()
	defer h.domain.mu.Unlock()
	h.leaveLine()
}

var errForgotten = errors.New("forgotten by Reset")

// registry has every record that this process holds. It keeps their files from
// the garbage collector, whose finalizer would close them and end the lock.
var registry holdRegistry

type holdRegistry struct {
	mu    sync.Mutex
	holds map[recordID]*hold
	// lost has files whose descriptor number was taken by another file, after
	// somebody closed it behind our back. They are never closed.
	lost []*os.File
}

func (r *holdRegistry) add(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds == nil {
		r.holds = map[recordID]*hold{}
	}
	r.holds[h.record.id] = h
}

func (r *holdRegistry) remove(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds[h.record.id] == h {
		delete(r.holds, h.record.id)
	}
}

// holder returns who of this process holds the record.
func (r *holdRegistry) holder(id recordID) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds[id]
}

func (r *holdRegistry) keepOpen(f *os.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, f)
}
