package exitcleanup

import (
	"container/list"
	"context"
	"reflect"
	"runtime"
	"runtime/debug"
	"time"
)

// lastWord is how long an entry may take to return once its context has ended:
// one that honours the context then reports its own error, not ErrUnfinished.
const lastWord = 100 * time.Millisecond

// Entry is one registered function. Its methods are safe for concurrent use.
type Entry struct {
	name     string
	registry *registry
	done     chan struct{}

	// Guarded by registry.mu.
	fn       func(context.Context) error
	place    *list.Element // among the pending; nil once taken or cancelled
	canceled bool

	err error // of fn; written before done is closed
}

// Cancel takes the entry out of its registry. It reports whether the function
// was kept from running: false once it has started. Every later call gives the
// same answer and does nothing.
//
// Cancel never waits, so that the function may cancel its own entry, as it
// does where it is the same Release that a user of the resource calls. To know
// that nothing runs any more, wait as well:
//
//	if !entry.Cancel() {
//		<-entry.Done()
//	}
func (e *Entry) Cancel() bool {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	if e.place != nil {
		e.withdraw()
	}
	return e.canceled
}

// Done returns a channel that is closed when the function does not run and
// never will: it has returned, or it was cancelled before.
func (e *Entry) Done() <-chan struct{} { return e.done }

// withdraw needs registry.mu and a pending entry.
func (e *Entry) withdraw() {
	e.registry.pending.Remove(e.place)
	e.place, e.fn, e.canceled = nil, nil, true
	close(e.done)
}

// result waits for a running entry; ok is false when the context ended first.
func (e *Entry) result(ctx context.Context) (err error, ok bool) {
	select {
	case <-e.done:
		return e.err, true
	case <-ctx.Done():
	}
	select {
	case <-e.done:
		return e.err, true
	case <-time.After(lastWord):
		return nil, false
	}
}

// runEntry is the first function of the goroutine of every running entry.
//
//go:noinline
func runEntry(ctx context.Context, e *Entry, fn func(context.Context) error) {
	defer e.registry.finished(e)
	e.err = ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			e.err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	e.err = fn(ctx)
}

// inEntry reports whether the caller runs on the goroutine of an entry. Exit
// must know: it would wait for that entry, which waits for Exit. Goroutines
// have no identity to ask for, so the stack has to tell.
func inEntry() bool {
	root := reflect.ValueOf(runEntry).Pointer()
	pcs := make([]uintptr, 64)
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if frame.Entry == root {
				return true
			}
		}
	}
}
