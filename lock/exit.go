package lock

import (
	"context"
	"strconv"

	"github.com/caproot/caproot/exitcleanup"
)

// CleanUp releases the locks of the domain for the end of the program: each is
// tried once, those with RetainOnExit stay, and records that KeepRecord kept
// are removed. What changed hands meanwhile is left where it is. Work that is
// under way is not waited for; its contexts end.
//
// Package exitcleanup calls it, in a program that uses exitcleanup.Main, Exit or
// HandleSignals, for every domain in which a lock was acquired. In any other
// program the records stay when it ends, as they do when it is killed, and the
// next contender finds their holder dead.
func (m *Manager) CleanUp(ctx context.Context) error { return m.domain().cleanUp(ctx) }

func (d *domain) cleanUp(ctx context.Context) error {
	return d.drain(ctx, func(h *hold) bool { return !h.o.RetainOnExit })
}

// arm registers the domain before anything is made that an exit should take
// away. It needs mu. An acquisition after the entry has run registers anew.
func (d *domain) arm() {
	if d.exit != nil {
		return
	}
	d.exit = exitcleanup.Register("locks of the domain "+strconv.Quote(d.name), func(ctx context.Context) error {
		d.mu.Lock()
		d.exit = nil
		d.mu.Unlock()
		return d.cleanUp(ctx)
	})
}
