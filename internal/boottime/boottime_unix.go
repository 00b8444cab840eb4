//go:build linux || openbsd || darwin || freebsd || dragonfly

package boottime

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func read(clock int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(ts.Nano()), nil
}
