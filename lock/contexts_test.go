package lock

import (
	"context"
	"testing"
	"time"
)

// A lock that is held for long does not keep the contexts of work that is done,
// and ends the others.
func TestContexts(t *testing.T) {
	var c contexts
	work, done := context.WithCancel(context.Background())
	for range 100 {
		c.derive(work)
	}
	open := c.derive(context.Background())
	kept := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.open)
	}
	if n := kept(); n != 101 {
		t.Errorf("%d kept", n)
	}
	done()
	for ctx := deadline(t); kept() > 1; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d contexts are kept", kept())
		}
	}
	c.end(ErrReleased)
	c.end(ErrCompromised)
	for what, ctx := range map[string]context.Context{"open": open, "later": c.derive(context.Background())} {
		if ctx.Err() == nil || context.Cause(ctx) != ErrReleased {
			t.Errorf("%s: %v", what, context.Cause(ctx))
		}
	}
}
