//go:build linux || openbsd

package lock

import (
	"time"

	"golang.org/x/sys/unix"
)

func sinceBoot() (time.Duration, error) { return clockTime(unix.CLOCK_BOOTTIME) }
