package lock

import (
	"errors"
	"io/fs"
	"time"
)

// removeRecord gives the name up, then the system's lock, then the descriptor.
// It needs mu. Until it has ended the hold, nothing has changed.
func (h *hold) removeRecord() (ended bool, err error) {
	// Whoever acquires next in this process locks the registry after the record
	// had no name any more: the race detector sees by that what the kernel orders.
	registry.holder(h.record.id)
	if err := h.judge(h.record.unchanged()); err != nil {
		if ended = errors.Is(err, ErrCompromised); ended {
			h.record.abandon()
		}
		return ended, err
	}
	leave, err := h.underGuard()
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
// the same. A guard that is there already is the peer at work. Within StaleAfter
// of the last refresh no peer has reason to.
func (h *hold) underGuard() (leave func() error, err error) {
	if h.o.StaleAfter == Never || time.Since(h.fresh) <= h.o.StaleAfter {
		return func() error { return nil }, nil
	}
	guard, err := h.place.publishGuard()
	if errors.Is(err, fs.ErrExist) {
		return nil, &BusyError{LockPath: h.place.lockPath, Guard: true}
	}
	if err != nil {
		return nil, err
	}
	return func() error { return h.place.removeGuard(guard) }, nil
}
