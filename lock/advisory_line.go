package lock

import (
	"container/list"
	"context"
	"io/fs"
	"os"
	"sync"
	"time"
)

// advisoryLine is the queue of this process before one lock file. Only its
// front asks the kernel, so that a thousand goroutines do not block a thousand
// threads, and each of them happens before the next for the race detector too.
type advisoryLine struct {
	id    recordID
	local bool // the locks of the file system are the kernel's own
	uses  int  // guarded by advisoryLines.mu

	mu        sync.Mutex
	exclusive bool      // held here
	shared    int       // locks held here
	asking    bool      // the front is with the kernel
	waiting   list.List // of *advisoryTurn
	blocked   [2]*blockedWait
}

// advisoryTurn is a place in the queue.
type advisoryTurn struct {
	shared bool
	ready  chan struct{} // closed when the place is the front
}

// blockedWait is a thread that the kernel keeps until it has the lock. Nothing
// can call it back, so who gives up leaves it, and the next one takes it over.
type blockedWait struct {
	file   *os.File
	client *AdvisoryFile // nil: nobody wants the lock any more
	done   chan struct{} // closed when the client has the answer
	err    error         // the answer
}

// advisoryLines are the lock files that this process has open.
var advisoryLines = lineTable{m: map[recordID]*advisoryLine{}, open: map[*AdvisoryFile]struct{}{}}

type lineTable struct {
	mu sync.Mutex
	m  map[recordID]*advisoryLine
	// open keeps the files from the garbage collector, whose finalizer would close
	// them and end their locks.
	open map[*AdvisoryFile]struct{}
}

// enter returns the line of a file that the caller has open: that keeps its
// number from being given to another one.
func (t *lineTable) enter(id recordID, local bool) *advisoryLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.m[id]
	if l == nil {
		l = &advisoryLine{id: id, local: local}
		t.m[id] = l
	}
	l.uses++
	return l
}

func (t *lineTable) leave(l *advisoryLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.uses--
	if l.uses == 0 {
		delete(t.m, l.id)
	}
}

// add makes a file enter its line.
func (t *lineTable) add(a *AdvisoryFile, id recordID) {
	a.line = t.enter(id, trusted(a.file))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[a] = struct{}{}
}

func (t *lineTable) remove(a *AdvisoryFile) {
	t.leave(a.line)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, a)
}

// key names the file among the ancestors of a call. No record has this text.
func (l *advisoryLine) key() key { return key{dir: l.id, text: "advisory"} }

func (l *advisoryLine) heldHere() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exclusive || l.shared > 0
}

// free needs mu. It tells whether the front may ask the kernel.
func (l *advisoryLine) free(shared bool) bool {
	return !l.asking && !l.exclusive && (shared || l.shared == 0)
}

// obtain gets the lock for a. It is not held when ctx ended, or without wait,
// while somebody else had it.
func (l *advisoryLine) obtain(ctx context.Context, a *AdvisoryFile, shared, wait bool) (held bool, waited time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.closed {
		return false, 0, fs.ErrClosed
	}
	free := l.waiting.Len() == 0 && l.free(shared)
	if free {
		held, err = l.ask(a, shared)
	}
	if held || err != nil || !wait || ctx.Err() != nil {
		return held, 0, err
	}
	started := time.Now()
	a.users++
	defer a.leave()
	if free {
		l.asking = true
	} else {
		if !l.await(ctx, shared) {
			return false, time.Since(started), nil
		}
		held, err = l.ask(a, shared)
	}
	if !held && err == nil && ctx.Err() == nil {
		held, err = l.block(ctx, a, shared)
	}
	l.asking = false
	l.admit()
	return held, time.Since(started), err
}

// await needs mu, which it gives back meanwhile. It waits until the turn has
// come, and the caller is asking. False means that ctx ended before.
func (l *advisoryLine) await(ctx context.Context, shared bool) bool {
	turn := &advisoryTurn{shared, make(chan struct{})}
	place := l.waiting.PushBack(turn)
	l.mu.Unlock()
	select {
	case <-turn.ready:
	case <-ctx.Done():
	}
	l.mu.Lock()
	select {
	case <-turn.ready:
		return true
	default:
	}
	l.waiting.Remove(place)
	l.admit()
	return false
}

// admit needs mu. It lets the front go on if nobody here is in its way.
func (l *advisoryLine) admit() {
	place := l.waiting.Front()
	if place == nil {
		return
	}
	if turn := place.Value.(*advisoryTurn); l.free(turn.shared) {
		l.waiting.Remove(place)
		l.asking = true
		close(turn.ready)
	}
}

// ask needs mu. It asks the kernel once.
func (l *advisoryLine) ask(a *AdvisoryFile, shared bool) (held bool, err error) {
	if shared && a.shared > 0 {
		// On Windows each lock of a handle wants an unlock of its own.
		l.hold(a, shared)
		return true, nil
	}
	if a.file == nil {
		if a.file, err = a.reopen(); err != nil {
			return false, err
		}
	}
	err = lockFile(a.file, shared, false, l.local)
	if err == errLocked {
		return false, nil
	}
	if err == nil {
		l.hold(a, shared)
	}
	return err == nil, err
}

// hold needs mu. The kernel has given the lock to the file of a.
func (l *advisoryLine) hold(a *AdvisoryFile, shared bool) {
	a.users++
	if shared {
		l.shared++
		a.shared++
	} else {
		l.exclusive = true
	}
}

// block needs mu, which it gives back meanwhile. It waits in the kernel, which
// takes a thread and the open file, for as long as ctx lets it.
func (l *advisoryLine) block(ctx context.Context, a *AdvisoryFile, shared bool) (held bool, err error) {
	slot := &l.blocked[modeIndex(shared)]
	w := *slot
	if w == nil {
		w = &blockedWait{file: a.file}
		a.file = nil
		*slot = w
		advisoryLines.enter(l.id, l.local)
		go l.blockThread(w, shared)
	}
	done := make(chan struct{})
	w.client, w.done = a, done
	l.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	select {
	case <-done:
	default:
		w.client = nil
		return false, nil
	}
	if w.err == nil {
		l.hold(a, shared)
	}
	return w.err == nil, w.err
}

func modeIndex(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

// blockThread gives the lock to the client, with the open file that has it. If
// nobody wants it any more, it is dropped.
func (l *advisoryLine) blockThread(w *blockedWait, shared bool) {
	err := lockFile(w.file, shared, true, l.local)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer advisoryLines.leave(l)
	l.blocked[modeIndex(shared)] = nil
	if a := w.client; a != nil {
		l.closeFile(a.file)
		a.file = w.file
		w.err = err
		close(w.done)
		return
	}
	if err == nil {
		unlockFile(w.file, l.local)
	}
	l.closeFile(w.file)
}

// release needs mu. It gives a lock of a back. After any error but ErrChanged it
// is still held.
func (l *advisoryLine) release(a *AdvisoryFile, shared bool) error {
	var err error
	if !shared || a.shared == 1 {
		if err = unlockFile(a.file, l.local); err != nil {
			if l.owns(a.file) {
				return err
			}
			err = errNotOurs
		}
	}
	if shared {
		l.shared--
		a.shared--
	} else {
		l.exclusive = false
	}
	a.leave()
	l.admit()
	return err
}

// verify needs mu. It tells whether the file of a still has its lock.
func (l *advisoryLine) verify(a *AdvisoryFile, shared bool) error {
	if !l.owns(a.file) {
		return errNotOurs
	}
	return stillLocked(a.file, shared)
}

// owns tells whether the descriptor is still of the lock file: the program may
// have closed it by its number, and opened another file since.
func (l *advisoryLine) owns(f *os.File) bool {
	o, err := look(f)
	return err == nil && o.id == l.id
}

// closeFile does not close what is another file now.
func (l *advisoryLine) closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	if !l.owns(f) {
		registry.keepOpen(f)
		return nil
	}
	return f.Close()
}
