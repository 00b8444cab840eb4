package exitcleanup

import (
	"container/list"
	"context"
	"os"
	"sync"
)

// Registry holds functions to run when something ends. The zero value is ready
// for use. All methods are safe for concurrent use. A Registry must not be copied
// after first use.
//
// [Main], [Exit] and [HandleSignals] run that of [Default]. A registry of one's own
// has a smaller scope; it joins the default one by
//
//	exitcleanup.Register("name", own.Run)
type Registry struct {
	mu      sync.Mutex
	pending list.List // of *Entry, the newest at the back
	running map[*Entry]struct{}
	owner   owner // who filled it; the zero value while nobody did
}

// Register adds fn to the [Default] registry; see [Registry.Register].
func Register(name string, fn func(context.Context) error) *Entry {
	return Default().Register(name, fn)
}

// Register adds fn. The name is for error messages; it need not be unique.
//
// Register before you make what fn takes away, and let fn cope with its absence:
// a signal can come between the two. fn should act on the object that was made,
// not on whatever has its name by then, and must return soon after its
// context has ended. It may call Register, Cancel, Run and Exit. An entry added while
// Run is at work is run by it too.
//
// Register panics if fn is nil.
func (r *Registry) Register(name string, fn func(context.Context) error) *Entry {
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

// Len returns the number of entries that have neither started nor been cancelled.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending.Len()
}

// Run runs the entries, newest first and one at a time, until none is left or
// ctx ends. An entry that is running when ctx ends is left to itself.
//
// The result is nil or holds one [EntryError] for every entry that failed,
// panicked, did not return or did not start; errors.Is and errors.As see all of
// them. Entries that did not start stay registered.
//
// Calls may overlap: they share the entries, and a call does not wait for an
// entry that another call has started.
func (r *Registry) Run(ctx context.Context) error {
	r.disownForeign()
	var failed failures
	if e := r.drain(ctx, &failed); e != nil {
		failed.add(e.name, cutShort(ctx, ErrUnfinished))
	}
	r.addPending(ctx, &failed)
	return failed.err()
}

// runAll is Run for the end of the process: it also waits for entries that
// calls of Run have started.
func (r *Registry) runAll(ctx context.Context) error {
	r.disownForeign()
	var failed failures
	r.drain(ctx, &failed)
	for _, e := range r.snapshot() {
		select {
		case <-e.done:
		case <-ctx.Done():
			failed.add(e.name, cutShort(ctx, ErrUnfinished))
		}
	}
	r.addPending(ctx, &failed)
	return failed.err()
}

// drain runs pending entries. It returns the one it left running, if ctx ended.
func (r *Registry) drain(ctx context.Context, failed *failures) *Entry {
	for ctx.Err() == nil {
		e, fn := r.take()
		if e == nil {
			return nil
		}
		go runEntry(ctx, e, fn)
		err, ok := e.result(ctx)
		if !ok {
			return e
		}
		failed.add(e.name, err)
	}
	return nil
}

// take makes the newest pending entry a running one.
func (r *Registry) take() (*Entry, func(context.Context) error) {
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

func (r *Registry) finished(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, e)
	close(e.done)
}

// snapshot returns the running entries.
func (r *Registry) snapshot() []*Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Entry, 0, len(r.running))
	for e := range r.running {
		all = append(all, e)
	}
	return all
}

// addPending reports what the end of ctx kept from running.
func (r *Registry) addPending(ctx context.Context, failed *failures) {
	if ctx.Err() == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := r.pending.Back(); at != nil; at = at.Prev() {
		failed.add(at.Value.(*Entry).name, cutShort(ctx, ErrNotRun))
	}
}

// disownForeign drops the entries if another process registered them.
func (r *Registry) disownForeign() {
	self := thisProcess()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.owner.is(self) {
		r.adopt(self)
	}
}

// adopt needs mu. It makes self the owner of an empty registry: entries that
// came with a fork belong to the parent, which will run them itself.
func (r *Registry) adopt(self owner) {
	for at := r.pending.Front(); at != nil; at = r.pending.Front() {
		at.Value.(*Entry).withdraw()
	}
	clear(r.running)
	r.owner = self
}
