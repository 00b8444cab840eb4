package lock

import (
	"container/list"
	"context"
	"sync"

	"github.com/caproot/caproot/exitcleanup"
)

// key is a target: the directory that holds it, by identity, and the name in
// it. Two spellings are one key.
type key struct {
	dir  recordID
	leaf string
	// text stands for a target whose directory cannot be opened, because it is
	// missing or outside of the root and the lock has an explicit path, and tells
	// directories apart that have no identity.
	text string
}

// domain is what managers of one name share: who holds which target, and who
// waits for it in which order.
type domain struct {
	name string

	mu    sync.Mutex
	lines map[key]*line
	holds map[*hold]struct{}
	kept  map[recordID][]keptRecord // by directory
	exit  *exitcleanup.Entry        // nil when none is registered
}

var domains struct {
	mu sync.Mutex
	m  map[string]*domain
}

func domainOf(name string) *domain {
	domains.mu.Lock()
	defer domains.mu.Unlock()
	d := domains.m[name]
	if d == nil {
		d = &domain{
			name: name, lines: map[key]*line{}, holds: map[*hold]struct{}{}, kept: map[recordID][]keptRecord{},
		}
		if domains.m == nil {
			domains.m = map[string]*domain{}
		}
		domains.m[name] = d
	}
	return d
}

// line is the queue before one key. A line that exists has its front taken, by
// an acquisition at work or by the holder.
type line struct {
	holder  *hold
	waiting list.List // of *waiter
}

type waiter struct {
	call  *request
	ready chan struct{} // closed when the waiter has the front, or shares
	share *hold         // not nil: a reference to this lock, not the front
}

// enter takes the front of the line before the key, waiting for it in order.
// It returns the lock instead if the call may share it. Without the wait, and
// when ctx ends, ok is false and holder is who was in front, if known.
func (d *domain) enter(ctx context.Context, q *request, wait bool) (shared, holder *hold, ok bool, err error) {
	d.mu.Lock()
	l := d.lines[q.key]
	switch {
	case l != nil && l.holder.shares(q):
		l.holder.refs++
		d.mu.Unlock()
		return l.holder, nil, true, nil
	case q.nested():
		d.mu.Unlock()
		return nil, nil, false, ErrNested
	case l == nil:
		d.arm()
		d.lines[q.key] = &line{}
		d.mu.Unlock()
		return nil, nil, true, nil
	case !wait:
		defer d.mu.Unlock()
		return nil, l.holder, false, nil
	}
	w := &waiter{call: q, ready: make(chan struct{})}
	place := l.waiting.PushBack(w)
	d.mu.Unlock()
	select {
	case <-w.ready:
		return w.share, nil, true, nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-w.ready:
		return w.share, nil, true, nil
	default:
		l.waiting.Remove(place)
		return nil, l.holder, false, nil
	}
}

// hold makes h the holder in the line where its acquisition has the front, and
// lets those who may share it in.
func (d *domain) hold(k key, h *hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[k]
	l.holder = h
	d.holds[h] = struct{}{}
	for at := l.waiting.Front(); at != nil; {
		w, next := at.Value.(*waiter), at.Next()
		if h.shares(w.call) {
			h.refs++
			w.share = h
			l.waiting.Remove(at)
			close(w.ready)
		}
		at = next
	}
}

// leave gives the front of the line to who has waited longest.
func (d *domain) leave(k key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveLocked(k)
}

func (d *domain) leaveLocked(k key) {
	l := d.lines[k]
	l.holder = nil
	front := l.waiting.Front()
	if front == nil {
		delete(d.lines, k)
		return
	}
	close(l.waiting.Remove(front).(*waiter).ready)
}

// shares reports whether the call may have a reference to the lock. It needs
// domain.mu.
func (h *hold) shares(q *request) bool {
	return h != nil && h.refs > 0 && !h.leaving && q.o.Owner != "" && h.owner == q.o.Owner && h.byPath == q.byPath
}
