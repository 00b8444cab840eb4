package lock

import "time"

// clock tells the time that has passed since some moment, the time that the
// machine was suspended included: a lease goes on running out while its holder
// sleeps. Wall clocks are never compared; they are set.
type clock interface {
	now() (time.Duration, error)
}

// bootClock is the system's: CLOCK_BOOTTIME on Linux and OpenBSD, CLOCK_MONOTONIC
// on macOS, where it goes on during sleep, GetTickCount64 on Windows, in steps of
// 10 to 16 ms. On other systems it is the monotonic clock, which may stand still
// during a suspension; there the holder of a lease notices the loss only by the
// fence.
type bootClock struct{}

func (bootClock) now() (time.Duration, error) { return sinceBoot() }
