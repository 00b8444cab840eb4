package etcdlock

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caproot/caproot/lock"
)

// forever is a TTL that no test waits for.
const forever = time.Hour

func queued(t *testing.T, client *clientv3.Client, name string) int {
	t.Helper()
	answer, err := client.Get(context.Background(), queueOf(name), clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	return int(answer.Count)
}

// awaitQueue waits until so many have a seat.
func awaitQueue(t *testing.T, client *clientv3.Client, name string, n int) {
	t.Helper()
	for queued(t, client, name) != n {
		must(t, sleep(t.Context(), 5*time.Millisecond))
	}
}

type result struct {
	lock *Lock
	err  error
}

func acquireSoon(ctx context.Context, client *clientv3.Client, name string, o Options) <-chan result {
	got := make(chan result, 1)
	go func() {
		l, err := Acquire(ctx, client, name, o)
		got <- result{l, err}
	}()
	return got
}

func TestHandOver(t *testing.T) {
	client := startServer(t).connect()
	held, err := Acquire(t.Context(), client, "a", Options{TTL: forever, Owner: "first"})
	must(t, err)
	must(t, held.Verify(t.Context()))
	if r := held.Remaining(); r <= 0 || r > forever-margin(forever) {
		t.Errorf("%v remain", r)
	}
	next := acquireSoon(t.Context(), client, "a", Options{TTL: forever})
	awaitQueue(t, client, "a", 2)
	must(t, held.Release())
	must(t, held.Release())
	got := <-next
	must(t, got.err)
	if got.lock.Token() <= held.Token() {
		t.Errorf("token %d after %d", got.lock.Token(), held.Token())
	}
	if err := held.Verify(t.Context()); !errors.Is(err, lock.ErrReleased) {
		t.Errorf("after the release: %v", err)
	}
	if held.Remaining() != 0 {
		t.Error("time remains after the release")
	}
	select {
	case <-held.Lost():
		t.Error("a released lock counts as lost")
	default:
	}
	must(t, got.lock.Release())
	if n := queued(t, client, "a"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	leases, err := client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 0 {
		t.Errorf("leases are left: %v, %v", leases, err)
	}
}

func TestBusy(t *testing.T) {
	client := startServer(t).connect()
	held, err := Acquire(t.Context(), client, "a", Options{TTL: forever, Owner: "first"})
	must(t, err)
	defer held.Release()

	_, err = TryAcquire(t.Context(), client, "a", Options{})
	var busy *lock.BusyError
	if !errors.As(err, &busy) || !busy.Own || busy.LockPath != "a" {
		t.Fatalf("%#v", err)
	}
	if payload, _ := busy.Payload.(map[string]any); payload["owner"] != "first" || payload["pid"] != float64(os.Getpid()) {
		t.Errorf("payload %v", busy.Payload)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := acquireSoon(ctx, client, "a", Options{TTL: forever})
	awaitQueue(t, client, "a", 2)
	gaveUp := errors.New("gave up")
	cancel(gaveUp)
	if got := <-waiting; !errors.Is(got.err, lock.ErrBusy) || !errors.Is(got.err, gaveUp) {
		t.Errorf("cancelled: %v", got.err)
	}
	if n := queued(t, client, "a"); n != 1 {
		t.Errorf("%d keys", n)
	}

	// A slash makes no queue a part of another one.
	other, err := TryAcquire(t.Context(), client, "a/b", Options{})
	must(t, err)
	must(t, other.Release())
	must(t, held.Verify(t.Context()))
}

func TestNested(t *testing.T) {
	client := startServer(t).connect()
	var inner context.Context
	err := With(t.Context(), client, "a", Options{TTL: forever}, func(ctx context.Context) error {
		inner = ctx
		_, err := Acquire(ctx, client, "a", Options{})
		if !errors.Is(err, lock.ErrNested) {
			t.Errorf("Acquire: %v", err)
		}
		if _, err = TryAcquire(ctx, client, "a", Options{}); !errors.Is(err, lock.ErrNested) {
			t.Errorf("TryAcquire: %v", err)
		}
		return With(ctx, client, "b", Options{}, func(context.Context) error { return ctx.Err() })
	})
	must(t, err)
	<-inner.Done()
	if cause := context.Cause(inner); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("cause %v", cause)
	}
	l, err := TryAcquire(inner, client, "a", Options{})
	if l != nil || !errors.Is(err, lock.ErrReleased) {
		t.Errorf("under an ended context: %v", err)
	}
}

// TestOrder lets fifty wait, each known to be in the queue before the next.
func TestOrder(t *testing.T) {
	const contenders = 50
	client := startServer(t).connect()
	held, err := Acquire(t.Context(), client, "a", Options{TTL: forever})
	must(t, err)
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			err := With(t.Context(), client, "a", Options{TTL: forever}, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		awaitQueue(t, client, "a", i+2)
	}
	must(t, held.Release())
	all.Wait()
	if len(order) != contenders || !slices.IsSorted(order) {
		t.Errorf("order %v", order)
	}
}

func TestOptions(t *testing.T) {
	client := startServer(t).connect()
	for _, o := range []Options{{TTL: -1}, {TTL: MinTTL - 1}, {TTL: MaxTTL + 1}} {
		if _, err := Acquire(t.Context(), client, "a", o); !errors.Is(err, lock.ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := TryAcquire(t.Context(), client, "", Options{}); !errors.Is(err, lock.ErrOption) {
		t.Errorf("no name: %v", err)
	}
	if o := (Options{TTL: 1500 * time.Millisecond}); o.seconds() != 2 {
		t.Errorf("1.5 s are %d", o.seconds())
	}
	for _, name := range []string{"a/b", "..", "a%2Fb", "\x00", "ä b"} {
		if q := queueOf(name); strings.Count(q, "/") != 3 {
			t.Errorf("%q: %q", name, q)
		}
	}
	client.Close()
	if _, err := Acquire(t.Context(), client, "a", Options{}); err == nil || errors.Is(err, lock.ErrBusy) {
		t.Errorf("closed client: %v", err)
	}
}
