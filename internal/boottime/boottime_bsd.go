//go:build darwin || freebsd || dragonfly

package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

func now() (time.Duration, error) { return read(unix.CLOCK_MONOTONIC) }
