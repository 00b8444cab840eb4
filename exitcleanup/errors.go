package exitcleanup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Causes inside an [EntryError]. The first two come with the error of the
// context, so that errors.Is(err, context.DeadlineExceeded) may hold too.
var (
	// ErrNotRun stands for an entry that had not started when the context
	// ended. It stays registered.
	ErrNotRun = errors.New("not run")
	// ErrUnfinished stands for an entry that was running when the context
	// ended and did not return soon after. It goes on; see [Entry.Done].
	ErrUnfinished = errors.New("still running")
	// ErrGoexit stands for an entry that ended its goroutine: by Exit, or by
	// runtime.Goexit, as testing.T.FailNow does.
	ErrGoexit = errors.New("goroutine ended without a result")
)

// EntryError is the failure of one entry.
type EntryError struct {
	Name string // as given to Register
	Err  error
}

func (e *EntryError) Error() string { return fmt.Sprintf("%q: %v", e.Name, e.Err) }
func (e *EntryError) Unwrap() error { return e.Err }

// PanicError is the failure of an entry that panicked.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of its goroutine, as runtime/debug.Stack gives it
}

// Error does not include the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// SignalError is the cause, see context.Cause, with which a signal cancels the
// context given to [Main].
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "ended by signal: " + e.Signal.String() }

// failures collects what went wrong, in the order in which it did.
type failures struct{ all *multierror.Error }

func (f *failures) add(name string, err error) {
	if err != nil {
		f.all = multierror.Append(f.all, &EntryError{Name: name, Err: err})
	}
}

// err returns nil if nothing was added.
func (f *failures) err() error {
	if f.all == nil {
		return nil
	}
	f.all.ErrorFormat = oneLine
	return &failedEntries{f.all}
}

// failedEntries shows errors.Is and errors.As every member; the chain that
// go-multierror unwraps to hides them from a reader of Unwrap() []error.
type failedEntries struct{ all *multierror.Error }

func (e *failedEntries) Error() string   { return e.all.Error() }
func (e *failedEntries) Unwrap() []error { return e.all.WrappedErrors() }

// members returns the failures of the single entries.
func members(err error) []error {
	if tree, ok := err.(interface{ Unwrap() []error }); ok {
		return tree.Unwrap()
	}
	return nil
}

func oneLine(all []error) string {
	texts := make([]string, len(all))
	for i, err := range all {
		texts[i] = err.Error()
	}
	return "cleanup failed: " + strings.Join(texts, "; ")
}

// cutShort says why an entry has no result.
func cutShort(ctx context.Context, why error) error {
	return fmt.Errorf("%w: %w", why, ctx.Err())
}
