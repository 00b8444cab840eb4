package exitcleanup

import (
	"context"
	"os"
	"sync"
	"time"
)

// sameRequest is how long after a first signal further ones are taken as part
// of it. GNU timeout sends SIGTERM to its child and at once to the group: a
// third of the children measured saw two, 0.13 ms apart.
const sameRequest = 100 * time.Millisecond

// process is the state of Main, Exit and signals. At most one end is under way.
type process struct {
	registry registry
	handlers handlers

	mu       sync.Mutex
	options  Options
	run      *ending // nil while the process is not ending
	signal   os.Signal
	signalAt time.Time
	panicked bool

	cancel context.CancelCauseFunc // of the context given to Main; nil before
	left   chan struct{}           // closed when its function has ended
}

// ending is one attempt to end the process.
type ending struct {
	cause    error         // for the context of Main
	cleaned  chan struct{} // closed when the entries have run
	survived chan struct{} // closed when the process goes on after all
}

func (p *process) configure(o Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options = o
}

// enterMain makes the context for Main.
func (p *process) enterMain() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		panic("exitcleanup: Main called twice")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel, p.left = cancel, make(chan struct{})
	if p.run != nil {
		cancel(p.run.cause)
	}
	return ctx
}

// leaveMain says that nobody need wait for the function given to Main. It may
// be called without Main, and repeatedly.
func (p *process) leaveMain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		return
	}
	select {
	case <-p.left:
	default:
		close(p.left)
	}
}

func (p *process) awaitMain() {
	p.mu.Lock()
	left, timeout := p.left, p.options.returnTimeout()
	p.mu.Unlock()
	if left == nil {
		return
	}
	select {
	case <-left:
	case <-time.After(timeout):
	}
}

// begin returns the end under way; first says that the caller has begun it.
func (p *process) begin(cause error) (run *ending, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beginLocked(cause)
}

func (p *process) beginLocked(cause error) (run *ending, first bool) {
	if p.run != nil {
		return p.run, false
	}
	p.run = &ending{cause: cause, cleaned: make(chan struct{}), survived: make(chan struct{})}
	if p.cancel != nil {
		p.cancel(cause)
	}
	return p.run, true
}

// survive undoes begin. The handlers are gone by now; a later HandleSignals
// installs them again.
func (p *process) survive(run *ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run, p.signal = nil, nil
	close(run.survived)
}

// cleanUp runs the entries and reports their failures.
func (p *process) cleanUp(run *ending) {
	defer close(run.cleaned)
	p.mu.Lock()
	options := p.options
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), options.cleanupTimeout())
	defer cancel()
	if err := p.registry.run(ctx); err != nil {
		options.report(err)
	}
}

// cleanUpBeforePanic returns when the entries have run, by this call or by an end
// that was under way. A panic is a defect that must not go unseen, so from here
// on neither a code nor a first signal ends the process before the runtime does.
func (p *process) cleanUpBeforePanic() {
	p.mu.Lock()
	p.panicked = true
	run, first := p.beginLocked(nil)
	p.mu.Unlock()
	p.leaveMain()
	if first {
		p.cleanUp(run)
	}
	<-run.cleaned
}

// verdict says what an arriving signal means.
type verdict int

const (
	begins  verdict = iota // the process ends by it
	joins                  // the entries run already
	insists                // somebody wants no cleanup
)

// note records a signal that arrived.
func (p *process) note(sig os.Signal) (verdict, *ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signal != nil {
		if time.Since(p.signalAt) < sameRequest {
			return joins, nil
		}
		return insists, nil
	}
	p.signal, p.signalAt = sig, time.Now()
	run, first := p.beginLocked(&SignalError{sig})
	if first {
		return begins, run
	}
	return joins, nil
}

// raiseNoted raises the signal that arrived, if one did. It never returns if the
// process is dying of a panic.
func (p *process) raiseNoted() {
	p.mu.Lock()
	sig, panicked := p.signal, p.panicked
	p.mu.Unlock()
	if panicked {
		select {}
	}
	if sig != nil {
		p.handlers.raise(sig)
	}
}
