package lock

import (
	"time"

	"github.com/caproot/caproot/internal/boottime"
)

// clock tells the time that has passed since some moment, the time that the
// machine was suspended included: a lease goes on running out while its holder
// sleeps. Wall clocks are never compared; they are set.
type clock interface {
	now() (time.Duration, error)
}

// bootClock is the system's. Where that stands still during a suspension, the
// holder of a lease notices the loss only by the fence.
type bootClock struct{}

func (bootClock) now() (time.Duration, error) { return boottime.Now() }
