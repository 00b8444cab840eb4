//go:build linux || openbsd || darwin || freebsd || dragonfly

package lock

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clockTime reads one of the system's clocks. A sandbox may refuse it.
func clockTime(id int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(ts.Nano()), nil
}
