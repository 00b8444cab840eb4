package exitcleanup

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Defaults of [Options]. Together they stay below the ten seconds after which
// Docker kills a container that it has asked to stop.
const (
	DefaultReturnTimeout  = 2 * time.Second
	DefaultCleanupTimeout = 5 * time.Second
)

// reportTimeout bounds Report, also the default one: standard error may be a
// full pipe that nobody reads.
const reportTimeout = time.Second

// Options say how the process ends. The zero value stands for the defaults.
type Options struct {
	// ReturnTimeout is how long, after a signal, the entries wait for the
	// function given to Main to return. Zero stands for DefaultReturnTimeout;
	// a negative value does not wait.
	ReturnTimeout time.Duration
	// CleanupTimeout is how long the entries may take altogether. Zero or less
	// stands for DefaultCleanupTimeout.
	CleanupTimeout time.Duration
	// Report is called with the error of the entries, see [Run], if there
	// is one. The exit status does not change. It has one second, and must not
	// call Exit. Nil writes the error to standard error, with the stacks of panics.
	Report func(error)
}

// Configure sets the options of this process for an end that begins later.
func Configure(o Options) { current.configure(o) }

func (o Options) returnTimeout() time.Duration {
	if o.ReturnTimeout == 0 {
		return DefaultReturnTimeout
	}
	return o.ReturnTimeout
}

func (o Options) cleanupTimeout() time.Duration {
	if o.CleanupTimeout <= 0 {
		return DefaultCleanupTimeout
	}
	return o.CleanupTimeout
}

// report gives the error away and waits no longer than reportTimeout.
func (o Options) report(err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if o.Report != nil {
			o.Report(err)
			return
		}
		toStderr(err)
	}()
	select {
	case <-done:
	case <-time.After(reportTimeout):
	}
}

func toStderr(err error) {
	fmt.Fprintln(os.Stderr, "exitcleanup:", err)
	for _, one := range members(err) {
		var p *PanicError
		if errors.As(one, &p) {
			fmt.Fprintf(os.Stderr, "\nstack of %v\n%s", one, p.Stack)
		}
	}
}
