package lock

import (
	"context"
	"fmt"
	"sync/atomic"
)

type ancestryKey struct{}

// ancestor is a lock that is held, or an acquisition at work, around a call.
type ancestor struct {
	key    key
	record key // the place of the record: two targets may have one
	rank   int
	alive  *atomic.Bool
	outer  *ancestor
}

// within marks ctx as under a lock.
func within(ctx context.Context, a ancestor) context.Context {
	a.outer, _ = ctx.Value(ancestryKey{}).(*ancestor)
	return context.WithValue(ctx, ancestryKey{}, &a)
}

// nested reports whether waiting for the key would wait for a caller.
func (q *request) nested() bool {
	for a := q.ancestry(); a != nil; a = a.outer {
		if a.alive.Load() && (a.key == q.key || a.record == q.place.key()) {
			return true
		}
	}
	return false
}

// underRecord is nested for two names that lead to one record, as names that
// differ by case do on some file systems.
func (q *request) underRecord(id recordID) bool {
	h := registry.holder(id)
	for a := q.ancestry(); h != nil && a != nil; a = a.outer {
		if a.alive == &h.alive && a.alive.Load() {
			return true
		}
	}
	return false
}

func (q *request) ancestry() *ancestor {
	a, _ := q.ctx.Value(ancestryKey{}).(*ancestor)
	return a
}

// inOrder refuses to go down the declared order.
func (q *request) inOrder() error {
	if q.o.Rank == 0 {
		return nil
	}
	for a := q.ancestry(); a != nil; a = a.outer {
		if a.alive.Load() && a.rank > q.o.Rank {
			return fmt.Errorf("%w: rank %d under rank %d", ErrOrder, q.o.Rank, a.rank)
		}
	}
	return nil
}
