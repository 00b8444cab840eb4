// Package boottime tells the time that has passed since some moment, the time that
// the machine was suspended included. What runs out at a server goes on running
// out while its holder sleeps, and wall clocks are set.
package boottime

import "time"

// Now reads CLOCK_BOOTTIME on Linux and OpenBSD, CLOCK_MONOTONIC on macOS, where it
// goes on during sleep, and GetTickCount64 on Windows, in steps of 10 to 16 ms. On
// FreeBSD and other systems it is the monotonic clock, which may stand still during
// a suspension. A sandbox may refuse it.
func Now() (time.Duration, error) { return now() }
