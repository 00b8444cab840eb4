//go:build darwin || freebsd || dragonfly

package lock

import (
	"time"

	"golang.org/x/sys/unix"
)

func sinceBoot() (time.Duration, error) { return clockTime(unix.CLOCK_MONOTONIC) }
