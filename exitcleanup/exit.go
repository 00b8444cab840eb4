package exitcleanup

import (
	"context"
	"os"
	"runtime"
)

// current is the one process there is.
var current process

// Main calls fn, runs the entries and exits with what fn returned. It does not return. Call it from func main, once; a second call
// panics.
//
// The context is cancelled when the process begins to end: by a signal given to
// [HandleSignals], then context.Cause is a *[SignalError], or by [Exit]. Once it
// is, the status is that of the signal, or the code of Exit, whatever fn returns.
//
// If fn panics, the entries run and the panic goes on: the runtime prints it with
// the stack of fn, and the status is 2, whatever signal or code the process was
// ending with. A panic that comes when the entries have run already, which can
// only be after Exit or ReturnTimeout, may be too late to be seen. If fn ends its goroutine by
// runtime.Goexit, the program goes on without it, as Go has it for main, and
// the entries stay until Exit or a signal.
func Main(fn func(ctx context.Context) int) {
	current.end(current.call(fn))
}

// Exit runs the entries and exits with the code. It does not return, and like os.Exit it runs no deferred functions. Of several calls
// the first decides the code; the others wait. Called by an entry, it ends
// that entry; the others still run.
func Exit(code int) {
	if inEntry() {
		go current.end(code)
		runtime.Goexit()
	}
	current.end(code)
}

// call runs the function given to Main.
func (p *process) call(fn func(ctx context.Context) int) int {
	ctx := p.enterMain()
	defer func() {
		if v := recover(); v != nil {
			p.cleanUpBeforePanic()
			panic(v)
		}
		p.leaveMain()
	}()
	return fn(ctx)
}

// end exits with the code. If the process is ending already, it waits for that,
// and takes over if the process survives.
func (p *process) end(code int) {
	for {
		run, first := p.begin(nil)
		if first {
			p.cleanUp(run)
			p.raiseNoted()
			os.Exit(code)
		}
		// Whoever calls Exit has nothing left to wind down.
		p.leaveMain()
		<-run.survived
	}
}

// endBySignal raises a signal that has been noted, after the entries have run.
// It returns only where the program wants the signal for itself.
func (p *process) endBySignal(run *ending) {
	p.awaitMain()
	p.cleanUp(run)
	p.raiseNoted()
	p.survive(run)
}
