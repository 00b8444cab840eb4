//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"
)

func descriptors(t *testing.T) int { return len(names(t, "/dev/fd")) }

// Who gives up leaves one thread behind, however often, which the next takes
// over; it drops the lock when it gets it and nobody wants it.
func TestAdvisoryCancelled(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	other := startAdvisory(t, dir, "hold l")
	other.hears("held")
	line := advisoryLineOf(t, dir, "l")
	before := descriptors(t)

	cause := errors.New("enough")
	for i := range 50 {
		ctx, cancel := context.WithCancelCause(ctx)
		got := make(chan error)
		go func() {
			_, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{Shared: i%2 == 1})
			got <- err
		}()
		line.untilBlocked(1)
		cancel(cause)
		want(t, "cancelled", <-got, cause)
	}
	advisoryLines.mu.Lock()
	if n := line.l.uses; n != 3 {
		t.Errorf("%d uses of the line, want this one and a thread for each kind", n)
	}
	advisoryLines.mu.Unlock()
	deadline, cancel := context.WithDeadline(ctx, time.Now())
	defer cancel()
	_, err := AcquireAdvisory(deadline, r, "l", AdvisoryOptions{})
	want(t, "deadline", err, ErrBusy)
	want(t, "deadline", err, context.DeadlineExceeded)

	got := make(chan error)
	go func() {
		l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{})
		if err == nil {
			err = errors.Join(l.Verify(ctx), l.Release())
		}
		got <- err
	}()
	line.untilBlocked(1)
	other.tell()
	must(t, <-got)
	line.until("no thread", func(l *advisoryLine) bool { return l.blocked == [2]*blockedWait{} })
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	must(t, flockCommand(t, "-n", filepath.Join(dir, "l"), "true").Run())
	line.done()
	wantIdle(t)
}

// Case 139: there is no upgrade; asking for one while others share is refused,
// and changes nothing.
func TestAdvisoryUpgrade(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	f, err := OpenAdvisory(r, "l")
	must(t, err)
	other := startAdvisory(t, dir, "hold l shared")
	other.hears("held")
	mine, err := f.Acquire(ctx, AdvisoryOptions{Shared: true})
	must(t, err)
	_, err = f.TryAcquire(ctx, AdvisoryOptions{})
	want(t, "exclusive beside shared", err, ErrBusy)
	_, err = f.Acquire(mine.Context(ctx), AdvisoryOptions{})
	want(t, "exclusive under shared", err, ErrNested)
	again, err := f.TryAcquire(ctx, AdvisoryOptions{Shared: true})
	must(t, err)
	other.tell()
	other.hears("released <nil>")
	must(t, again.Release())
	if flockCommand(t, "-n", filepath.Join(dir, "l"), "true").Run() == nil {
		t.Error("the release of one shared lock ended the other")
	}
	must(t, mine.Verify(ctx))
	must(t, mine.Release())
	must(t, mine.Release())
	must(t, flockCommand(t, "-n", filepath.Join(dir, "l"), "true").Run())
	must(t, f.Close())
	_, err = f.Acquire(ctx, AdvisoryOptions{})
	want(t, "after Close", err, fs.ErrClosed)
}
