package exitcleanup

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// raise sends the signal to the calling thread. Linux delivers that on the way
// back from the system call, so a return means: the program has a channel for
// the signal, or ignores or blocks it. A signal to the process may be taken by
// another thread, and would leave that open.
func raise(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// It can fail only for a number that no signal has, and then none arrived.
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), number)
}
