package lock

import (
	"fmt"
	"time"
)

// Bounds of the options of a lease.
const (
	// MinTTL leaves a beat, and a look at it, a few turns of a busy machine.
	MinTTL = 50 * time.Millisecond
	// MaxTTL bounds how long a record or fence file, whoever wrote it, keeps others
	// waiting for a dead holder.
	MaxTTL = 24 * time.Hour

	minHeartbeat = 10 * time.Millisecond
	defaultTTL   = 10 * time.Second
)

// LeaseOptions are the options of a lease. Contenders take the holder's TTL, not
// their own.
type LeaseOptions struct {
	// LockPath is that of Options.
	LockPath string
	// TTL is how long the lease lasts after the beginning of the last renewal:
	// MinTTL to MaxTTL, 10 s if zero. A machine that may stand still for seconds, as
	// those of CI do, wants more.
	TTL time.Duration
	// Heartbeat is the time between two renewals: at least 10 ms, at most half of
	// TTL; a third of TTL, but not less than 10 ms, if zero.
	Heartbeat time.Duration
	// Grace is added to the TTL of another holder before its lease counts as run
	// out. It cannot shorten that.
	Grace time.Duration
	// Timeout is how long to wait for another holder; zero makes one try. The
	// context bounds the wait too.
	Timeout time.Duration
	// Owner is shown to others.
	Owner string
	// Rank is that of Options.
	Rank int
	// OnEvicted is called once, on a goroutine of its own, when the lease is lost.
	OnEvicted func(error)
	// OnLate is called on a goroutine of its own for the first of failed renewals
	// in a row, with the error and the time that is left.
	OnLate func(err error, left time.Duration)
}

// Check returns ErrOption for an option out of its range, as AcquireLease does.
func (o LeaseOptions) Check() error { return o.complete() }

// complete refuses what is out of range and fills in the rest.
func (o *LeaseOptions) complete() error {
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = max(minHeartbeat, o.TTL/3)
	}
	bad := func(field string, value any) error { return fmt.Errorf("%w: %s %v", ErrOption, field, value) }
	switch {
	case o.TTL < MinTTL || o.TTL > MaxTTL:
		return bad("TTL", o.TTL)
	case o.Heartbeat < minHeartbeat || o.Heartbeat > o.TTL/2:
		return bad("Heartbeat", o.Heartbeat)
	case o.Grace < 0 || o.Grace > MaxTTL:
		return bad("Grace", o.Grace)
	case o.Timeout < 0:
		return bad("Timeout", o.Timeout)
	}
	return nil
}
