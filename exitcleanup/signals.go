package exitcleanup

import (
	"os"
	"os/signal"
	"sync"
)

// HandleSignals makes each of the signals end the process in good order: it
// cancels the context given to [Main], runs the entries
// and raises the signal again, so that the process has the status that the signal
// gives. Without arguments these are SIGINT, SIGTERM and, on Unix, SIGHUP.
// The package documentation says what second signals and handlers and ignored
// signals of the program itself do.
//
// Give it signals whose default action ends the process. After another one the
// entries run and the process goes on. SIGKILL and SIGSTOP cannot be handled.
//
// Calls share one handler for a signal; stop ends this use of it and may be called
// more than once. With the last use the signal has the effect again that it has
// without this package. A signal that arrived before still ends the process.
func HandleSignals(sigs ...os.Signal) (stop func()) {
	if len(sigs) == 0 {
		sigs = defaultSignals()
	}
	return current.handlers.use(sigs, current.arrived)
}

// arrived is called for every signal.
func (p *process) arrived(sig os.Signal) {
	switch meaning, run := p.note(sig); meaning {
	case begins:
		// Not here: this goroutine has to see the next one.
		go p.endBySignal(run)
	case insists:
		p.handlers.raise(sig)
	}
}

// handlers are the installed signal handlers.
type handlers struct {
	mu sync.Mutex
	of map[os.Signal]*handler
}

// handler serves one signal. Each has its own channel: signal.Stop works on
// channels, and the others must not lose a signal meanwhile.
type handler struct {
	sig   os.Signal
	users int
	ch    chan os.Signal
}

// use installs what is missing and counts the caller.
func (h *handlers) use(sigs []os.Signal, arrived func(os.Signal)) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var used []*handler
	for _, sig := range sigs {
		// Notify would undo the program's choice, or that of nohup(1).
		if !signal.Ignored(sig) {
			used = append(used, h.get(sig, arrived))
		}
	}
	return sync.OnceFunc(func() { h.release(used) })
}

// get needs mu.
func (h *handlers) get(sig os.Signal, arrived func(os.Signal)) *handler {
	one := h.of[sig]
	if one == nil {
		one = &handler{sig: sig, ch: make(chan os.Signal, 1)}
		if h.of == nil {
			h.of = make(map[os.Signal]*handler)
		}
		h.of[sig] = one
		go one.serve(arrived)
	}
	one.users++
	// Again, in case the program has called signal.Reset since.
	signal.Notify(one.ch, sig)
	return one
}

// serve also delivers a signal that was in the channel when it was closed.
func (one *handler) serve(arrived func(os.Signal)) {
	for sig := range one.ch {
		arrived(sig)
	}
}

func (h *handlers) release(used []*handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range used {
		one.users--
		if one.users == 0 && h.of[one.sig] == one {
			h.remove(one)
		}
	}
}

// raise leaves the signals to the program, whoever still uses them, and raises
// one. It keeps mu meanwhile: a handler that another goroutine installed in
// between would take the signal, and the process would live on.
func (h *handlers) raise(sig os.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeAll()
	raise(sig)
}

// removeAll needs mu.
func (h *handlers) removeAll() {
	for _, one := range h.of {
		h.remove(one)
	}
}

// remove needs mu. Nothing is sent once signal.Stop has returned.
func (h *handlers) remove(one *handler) {
	delete(h.of, one.sig)
	signal.Stop(one.ch)
	close(one.ch)
}
