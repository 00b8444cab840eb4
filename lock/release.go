package lock

import (
	"bytes"
	"errors"
	"time"
)

// removeRecord gives the name up, then the system's lock, then the descriptor.
// It needs mu. Until it has ended the hold, nothing has changed.
func (h *hold) removeRecord() (ended bool, err error) {
	// Whoever acquires next in this process locks the registry after the record
	// had no name any more: the race detector sees by that what the kernel orders.
	registry.holder(h.record.id)
	o, err := look(h.record.file)
	if err == nil {
		err = h.judge(h.record.unchangedAs(&o))
	}
	if err != nil {
		if ended = errors.Is(err, ErrCompromised); ended {
			h.record.abandon()
		}
		return ended, err
	}
	leave, err := h.underGuard(o.mtime)
	if err != nil {
		return false, err
	}
	if h.o.KeepRecord && h.record.hidden != "" {
		err = h.judge(h.keep())
	} else {
		err = h.judge(h.record.remove(&h.place, h.place.leaf))
	}
	ended = err == nil || errors.Is(err, ErrCompromised)
	if gerr := leave(); gerr != nil {
		err = errors.Join(err, gerr)
	}
	return ended, err
}

// underGuard takes the guard where a peer may take the record for stale: it
// would compare it with what it has read, and remove it by name, while we do
// the same. A guard that is there already is the peer at work. mtime is that of
// the record.
func (h *hold) underGuard(mtime time.Time) (leave func() error, err error) {
	if !h.looksStale(mtime) {
		return func() error { return nil }, nil
	}
	guard, err := h.place.takeGuard()
	if err != nil {
		return nil, err
	}
	return func() error { return h.place.removeGuard(guard) }, nil
}

// looksStale judges one's own record as a peer does: by the date in it, or its
// time of modification, against the wall clock, which may have been set. The
// clock that is never set stands still while the machine sleeps, so it alone does
// not tell either.
func (h *hold) looksStale(mtime time.Time) bool {
	if h.o.StaleAfter == Never {
		return false
	}
	since := age{since: mtime}
	if bytes.Contains(h.text, []byte(createdAt)) {
		since = ageOf(h.text, mtime)
	}
	return since.unsure || since.stale(h.o.StaleAfter, time.Now()) || time.Since(h.fresh) > h.o.StaleAfter
}
