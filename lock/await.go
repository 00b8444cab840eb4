package lock

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// patience is the pause behind a wait in the kernel: peers that judge by age
	// may remove the record of a holder that lives on.
	patience = time.Second
	// maxHurried is how many looks in a row may go without a pause. Each of them
	// found something changed, so somebody else got on; a file system whose
	// numbers are not stable looks like that for ever.
	maxHurried = 64
)

// await waits until another attempt makes sense. At the deadline it asks for a
// last one.
func (a *acquisition) await(in *obstacle) error {
	switch in.kind {
	case changed:
		if a.hurried++; a.hurried > maxHurried {
			a.hurried = 0
			a.pause(a.delay(), nil)
		}
	case alive:
		a.hurried = 0
		a.awaitHolder(in)
	case unproved:
		a.hurried = 0
		a.awaitChange()
	}
	err := a.ctx.Err()
	if errors.Is(err, context.Canceled) {
		if a.woken != nil {
			unlockClose(a.woken)
			a.woken = nil
		}
		return context.Cause(a.ctx)
	}
	a.final = err != nil
	return nil
}

// awaitHolder blocks in the kernel until the holder releases or dies.
func (a *acquisition) awaitHolder(in *obstacle) {
	c := waits.join(in.id, in.file)
	in.file = nil
	if c == nil {
		a.pause(a.delay(), nil)
		return
	}
	longest := a.delay()
	if a.o.Retry.Attempts == 0 {
		longest = max(longest, patience+rand.N(patience/4))
	}
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case a.woken = <-c.woken:
		a.ofGuard = in.guard
	case <-t.C:
		waits.leave(c)
	case <-a.ctx.Done():
		waits.leave(c)
	}
}

// awaitChange waits for something to happen in the directory.
func (a *acquisition) awaitChange() {
	if a.watch == nil {
		a.watch = newWatch(&a.place)
		if a.watch.works() {
			// It may have happened before the watch began.
			return
		}
	}
	a.pause(a.delay(), a.watch.events())
}

func (a *acquisition) pause(d time.Duration, or <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case _, told := <-or:
		if !told {
			// The watch ended: poll, or the wait would never pause again.
			a.watch.of = nil
			a.pause(d, nil)
		}
	case <-a.ctx.Done():
	}
}

// delay is the pause after the last attempt.
func (a *acquisition) delay() time.Duration {
	r := &a.o.Retry
	delay := min(float64(r.Max), float64(r.Min)*math.Pow(r.Factor, float64(a.tries-1)))
	if r.Jitter {
		delay = min(float64(r.Max), delay*(1+rand.Float64()))
	}
	return time.Duration(delay)
}
