package lock

import (
	"os"
	"sync"
)

// maxBlocked bounds the threads that wait in the kernel. The Go runtime ends a
// process with 10,000; who comes later polls.
const maxBlocked = 512

// waits has the records of live holders that this process waits for: for each,
// one thread blocked in the kernel, however many clients.
var waits waitTable

type waitTable struct {
	mu sync.Mutex
	m  map[recordID]*kernelWait
}

type kernelWait struct {
	file    *os.File
	clients []*waitClient
}

// waitClient is told of the end of a wait: the first one by the record itself,
// open and locked, the others by nil, to look for themselves.
type waitClient struct {
	id    recordID
	woken chan *os.File
}

// join waits for the lock of the record that f has open, and takes f over. It
// returns nil when there are too many waits already.
func (t *waitTable) join(id recordID, f *os.File) *waitClient {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.m[id]
	switch {
	case w != nil:
		f.Close()
	case len(t.m) >= maxBlocked:
		f.Close()
		return nil
	default:
		if t.m == nil {
			t.m = map[recordID]*kernelWait{}
		}
		w = &kernelWait{file: f}
		t.m[id] = w
		go t.block(id, w)
	}
	c := &waitClient{id: id, woken: make(chan *os.File, 1)}
	w.clients = append(w.clients, c)
	return c
}

// block is the thread. Without a client left it does nothing but let go.
func (t *waitTable) block(id recordID, w *kernelWait) {
	err := flock(w.file, true)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id)
	f := w.file
	if err != nil {
		f.Close()
		f = nil
	}
	for _, c := range w.clients {
		c.woken <- f
		f = nil
	}
	if f != nil {
		unlockClose(f)
	}
}

// leave ends a client's wait. The thread stays until the kernel wakes it.
func (t *waitTable) leave(c *waitClient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case f := <-c.woken:
		if f != nil {
			unlockClose(f)
		}
		return
	default:
	}
	w := t.m[c.id]
	for i, other := range w.clients {
		if other == c {
			w.clients = append(w.clients[:i], w.clients[i+1:]...)
			return
		}
	}
}
