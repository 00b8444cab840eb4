package caproot

import (
	"io/fs"
	"sync"
	"sync/atomic"
)

// lifetime counts the calls in flight on a handle, so that Close cannot give
// the handle's number to another file while a call still uses it. Its zero
// value is open.
type lifetime struct {
	state   atomic.Int64 // calls in flight, plus closing
	closer  sync.Mutex   // held by close
	drained sync.Mutex   // held from close until the last call has left
}

const closing = 1 << 62

// enter returns fs.ErrClosed after close.
func (l *lifetime) enter() error {
	for {
		n := l.state.Load()
		if n >= closing {
			return fs.ErrClosed
		}
		if l.state.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// leave ends a call; the last one after close wakes it.
func (l *lifetime) leave() {
	if l.state.Add(-1) == closing {
		l.drained.Unlock()
	}
}

// close lets no further call in, waits for those in flight, and reports
// whether the caller is the one to dispose of the handle.
func (l *lifetime) close() bool {
	l.closer.Lock()
	defer l.closer.Unlock()
	if l.state.Load() >= closing {
		return false
	}
	l.drained.Lock()
	if l.state.Add(closing) > closing {
		l.drained.Lock()
	}
	return true
}
