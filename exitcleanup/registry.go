package exitcleanup

import (
	"container/list"
	"context"
	"os"
	"sync"
)

// registry holds the entries of one process. The zero value is ready for use.
type registry struct {
	mu      sync.Mutex
	pending list.List // of *Entry, the newest at the back
	running map[*Entry]struct{}
	owner   owner // who filled it; the zero value while nobody did
}

// Register adds fn to the functions that run when the process ends. The name is
// for error messages; it need not be unique.
//
// Register before you make what fn takes away, and let fn cope with its absence:
// a signal can come between the two. fn should act on the object that was made,
// not on whatever has its name by then, and must return soon after its
// context has ended. It may call Register, Cancel and Exit, but not Run. An
// entry added while entries run is run too; one added by another goroutine after
// the last of them may be too late.
//
// Register panics if fn is nil.
func Register(name string, fn func(context.Context) error) *Entry {
	return current.registry.register(name, fn)
}

// Run runs the entries, newest first and one at a time, until none is left or
// ctx ends, and the process goes on. It is for what ends a program past Main and
// Exit, such as syscall.Exec. An entry that is running when ctx ends is left to
// itself.
//
// The result is nil or holds one [EntryError] for every entry that failed,
// panicked, did not return or did not start; errors.Is and errors.As see all of
// them. Entries that did not start stay registered.
//
// Calls may overlap, also with the end of the process: they share the entries,
// each is run by one of them, and each call waits for all.
func Run(ctx context.Context) error { return current.registry.run(ctx) }

func (r *registry) register(name string, fn func(context.Context) error) *Entry {
	if fn == nil {
		panic("exitcleanup: Register of a nil function")
	}
	e := &Entry{name: name, registry: r, fn: fn, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The id is cheap to ask for; the start time, a file to read on Linux, is
	// looked up for the first entry only and compared when entries run.
	if r.owner.pid != os.Getpid() {
		r.adopt(thisProcess())
	}
	e.place = r.pending.PushBack(e)
	return e
}

func (r *registry) run(ctx context.Context) error {
	r.disownForeign()
	var failed failures
	var hung *Entry
	for ctx.Err() == nil {
		if e, fn := r.take(); e != nil {
			go runEntry(ctx, e, fn)
			err, ok := e.result(ctx)
			if !ok {
				hung, err = e, cutShort(ctx, ErrUnfinished)
			}
			failed.add(e.name, err)
			continue
		}
		e := r.started()
		if e == nil {
			break
		}
		e.result(ctx) // the call that started it reports it
	}
	if ctx.Err() != nil {
		r.addRest(ctx, hung, &failed)
	}
	return failed.err()
}

// take makes the newest pending entry a running one.
func (r *registry) take() (*Entry, func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.pending.Back()
	if last == nil {
		return nil, nil
	}
	e := r.pending.Remove(last).(*Entry)
	fn := e.fn
	e.place, e.fn = nil, nil
	if r.running == nil {
		r.running = make(map[*Entry]struct{})
	}
	r.running[e] = struct{}{}
	return e, fn
}

// started returns an entry that is running, or nil.
func (r *registry) started() *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.running {
		return e
	}
	return nil
}

func (r *registry) finished(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, e)
	close(e.done)
}

// addRest reports what the end of ctx left running, but for the hung one, which
// has been, and what it kept from running.
func (r *registry) addRest(ctx context.Context, hung *Entry, failed *failures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.running {
		if e != hung {
			failed.add(e.name, cutShort(ctx, ErrUnfinished))
		}
	}
	for at := r.pending.Back(); at != nil; at = at.Prev() {
		failed.add(at.Value.(*Entry).name, cutShort(ctx, ErrNotRun))
	}
}

// disownForeign drops the entries if another process registered them.
func (r *registry) disownForeign() {
	self := thisProcess()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.owner.is(self) {
		r.adopt(self)
	}
}

// adopt needs mu. It makes self the owner of an empty registry: entries that
// came with a fork belong to the parent, which will run them itself.
func (r *registry) adopt(self owner) {
	for at := r.pending.Front(); at != nil; at = r.pending.Front() {
		at.Value.(*Entry).withdraw()
	}
	clear(r.running)
	r.owner = self
}
