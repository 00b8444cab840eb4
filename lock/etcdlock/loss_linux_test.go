package etcdlock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caproot/caproot/internal/boottime"
	"github.com/caproot/caproot/lock"
)

// expectLost waits for the loss and looks at what every method says then.
func expectLost(t *testing.T, l *Lock, ctx context.Context) {
	t.Helper()
	<-l.seat.lost
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrCompromised) {
		t.Errorf("cause %v", cause)
	}
	if err := l.Verify(t.Context()); !errors.Is(err, lock.ErrCompromised) {
		t.Errorf("Verify: %v", err)
	}
	if r := l.Remaining(); r != 0 {
		t.Errorf("%v remain", r)
	}
	if ctx := l.Context(t.Context()); !errors.Is(context.Cause(ctx), lock.ErrCompromised) {
		t.Errorf("a new context: %v", context.Cause(ctx))
	}
	if err := l.Release(); !errors.Is(err, lock.ErrCompromised) {
		t.Errorf("Release: %v", err)
	}
	must(t, l.Release())
}

// TestServerRestart has one holder and one in the queue.
func TestServerRestart(t *testing.T) {
	s := startServer(t)
	client := s.connect()
	held, err := Acquire(t.Context(), client, "a", Options{TTL: forever})
	must(t, err)
	next := acquireSoon(t.Context(), client, "a", Options{TTL: forever})
	awaitQueue(t, client, "a", 2)
	s.stop()
	if err := held.Verify(expired(t)); err == nil || errors.Is(err, lock.ErrCompromised) {
		t.Errorf("without a server: %v", err)
	}
	s.start()
	for err := held.Verify(t.Context()); err != nil; err = held.Verify(t.Context()) {
		if errors.Is(err, lock.ErrCompromised) {
			t.Fatal(err)
		}
	}
	if _, err := TryAcquire(t.Context(), client, "a", Options{}); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("after the restart: %v", err)
	}
	must(t, held.Release())
	got := <-next
	must(t, got.err)
	if got.lock.Token() <= held.Token() {
		t.Errorf("token %d after %d", got.lock.Token(), held.Token())
	}
	must(t, got.lock.Release())
}

// expired is a context that ends while there is no server to answer.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestServerGone counts on nothing but the holder's own clock.
func TestServerGone(t *testing.T) {
	s := startServer(t)
	client := s.connect()
	l, err := Acquire(t.Context(), client, "a", Options{TTL: 2 * time.Second})
	must(t, err)
	ctx := l.Context(t.Context())
	s.stop()
	expectLost(t, l, ctx)
	if _, err := Acquire(expired(t), client, "a", Options{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrBusy) {
		t.Errorf("without a server: %v", err)
	}
	if _, err := TryAcquire(t.Context(), client, "a", Options{TTL: time.Second}); err == nil || errors.Is(err, lock.ErrBusy) {
		t.Errorf("without a server: %v", err)
	}
}

func TestReleaseWithoutServer(t *testing.T) {
	s := startServer(t)
	client := s.connect()
	l, err := Acquire(t.Context(), client, "a", Options{TTL: 10 * time.Second})
	must(t, err)
	ctx := l.Context(t.Context())
	s.stop()
	if err := l.release(expired(t)); err == nil || errors.Is(err, lock.ErrCompromised) {
		t.Fatalf("without a server: %v", err)
	}
	<-ctx.Done()
	if err := l.Verify(t.Context()); !errors.Is(err, lock.ErrReleased) {
		t.Errorf("after the try: %v", err)
	}
	s.start()
	for err := l.Release(); err != nil; err = l.Release() {
		if errors.Is(err, lock.ErrCompromised) {
			t.Fatal(err)
		}
	}
	next, err := TryAcquire(t.Context(), client, "a", Options{})
	must(t, err)
	must(t, next.Release())
}

// TestKeyRemoved has a TTL whose renewals nobody waits for: Verify asks.
func TestKeyRemoved(t *testing.T) {
	client := startServer(t).connect()
	l, err := Acquire(t.Context(), client, "a", Options{TTL: forever})
	must(t, err)
	ctx := l.Context(t.Context())
	_, err = client.Delete(t.Context(), l.Key())
	must(t, err)
	next, err := TryAcquire(t.Context(), client, "a", Options{TTL: forever})
	must(t, err)
	if err := l.Verify(t.Context()); !errors.Is(err, lock.ErrCompromised) {
		t.Errorf("Verify: %v", err)
	}
	expectLost(t, l, ctx)
	must(t, next.Verify(t.Context()))
	if _, err = client.Delete(t.Context(), next.Key()); err != nil {
		t.Fatal(err)
	}
	if err := next.Release(); !errors.Is(err, lock.ErrCompromised) {
		t.Errorf("Release: %v", err)
	}
}

// TestRenewalNoticesLoss calls nothing that asks.
func TestRenewalNoticesLoss(t *testing.T) {
	client := startServer(t).connect()
	for _, take := range []func(*Lock) error{
		func(l *Lock) error { _, err := client.Delete(t.Context(), l.Key()); return err },
		func(l *Lock) error { _, err := client.Revoke(t.Context(), l.seat.lease); return err },
	} {
		l, err := Acquire(t.Context(), client, "a", Options{TTL: 3 * time.Second})
		must(t, err)
		ctx := l.Context(t.Context())
		must(t, take(l))
		expectLost(t, l, ctx)
	}
}

// TestSeatLost takes the seat of one who waits: it takes another one.
func TestSeatLost(t *testing.T) {
	client := startServer(t).connect()
	held, err := Acquire(t.Context(), client, "a", Options{TTL: forever})
	must(t, err)
	next := acquireSoon(t.Context(), client, "a", Options{TTL: 3 * time.Second})
	awaitQueue(t, client, "a", 2)
	leases, err := client.Leases(t.Context())
	must(t, err)
	for _, lease := range leases.Leases {
		if lease.ID != held.seat.lease {
			_, err := client.Revoke(t.Context(), lease.ID)
			must(t, err)
		}
	}
	awaitQueue(t, client, "a", 1)
	awaitQueue(t, client, "a", 2)
	must(t, held.Release())
	got := <-next
	must(t, got.err)
	must(t, got.lock.Verify(t.Context()))
	must(t, got.lock.Release())
}

// TestSuspension is cases 145 and 147 with a clock that jumps while the server, and
// all timers, stand still.
func TestSuspension(t *testing.T) {
	client := startServer(t).connect()
	var asleep atomic.Int64
	c, err := newContender(client, "a", Options{TTL: 5 * time.Second}, func() (time.Duration, error) {
		now, err := boottime.Now()
		return now + time.Duration(asleep.Load()), err
	})
	must(t, err)
	l, err := c.acquire(t.Context())
	must(t, err)
	ctx := l.Context(t.Context())
	asleep.Store(int64(10 * time.Minute))
	select {
	case <-l.Lost():
	default:
		t.Error("Lost did not look at the clock")
	}
	expectLost(t, l, ctx)
}

// TestTimeCountsFromTheRequest answers the first request after the TTL.
func TestTimeCountsFromTheRequest(t *testing.T) {
	client := startServer(t).connect()
	var calls atomic.Int64
	c, err := newContender(client, "a", Options{TTL: 5 * time.Second}, func() (time.Duration, error) {
		if calls.Add(1) == 1 {
			return 0, nil
		}
		return 5*time.Second - time.Nanosecond, nil
	})
	must(t, err)
	if _, err := c.try(t.Context()); !errors.Is(err, lock.ErrCompromised) {
		t.Fatal(err)
	}
	if n := queued(t, client, "a"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// TestClockRefused is a sandbox that refuses the clock after the lock was taken.
func TestClockRefused(t *testing.T) {
	client := startServer(t).connect()
	var refused atomic.Bool
	c, err := newContender(client, "a", Options{TTL: 5 * time.Second}, func() (time.Duration, error) {
		if refused.Load() {
			return 0, errors.New("refused")
		}
		return boottime.Now()
	})
	must(t, err)
	l, err := c.acquire(t.Context())
	must(t, err)
	ctx := l.Context(t.Context())
	refused.Store(true)
	expectLost(t, l, ctx)
}
