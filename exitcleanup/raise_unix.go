//go:build unix && !linux

package exitcleanup

import (
	"os"
	"syscall"
	"time"
)

// delivery is how long a signal that a process sends to itself may take to
// end it. POSIX (kill) promises it before the return only to a process with one
// thread.
const delivery = time.Second

// raise returns if the program has a channel for the signal, or ignores or
// blocks it.
func raise(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if syscall.Kill(os.Getpid(), number) == nil {
		time.Sleep(delivery)
	}
}
