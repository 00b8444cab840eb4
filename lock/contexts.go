package lock

import (
	"context"
	"sync"
)

// contexts are those derived from a lock. They end with it; one that has ended
// before is not kept, for a lock may be held for long.
type contexts struct {
	mu    sync.Mutex
	cause error // not nil once they have ended
	open  map[context.Context]context.CancelCauseFunc
}

func (c *contexts) derive(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		cancel(c.cause)
		return ctx
	}
	if c.open == nil {
		c.open = map[context.Context]context.CancelCauseFunc{}
	}
	c.open[ctx] = cancel
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, ctx)
	})
	return ctx
}

// end ends them, and at once those derived later. The first cause counts.
func (c *contexts) end(cause error) {
	c.mu.Lock()
	open := c.open
	if c.cause == nil {
		c.cause, c.open = cause, nil
	}
	c.mu.Unlock()
	for _, cancel := range open {
		cancel(cause)
	}
}
