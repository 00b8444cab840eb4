package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

// wantNoMore waits until there are no more descriptors and goroutines than before.
func wantNoMore(t *testing.T, files, routines int) {
	t.Helper()
	for ctx := deadline(t); openFDs(t) > files || runtime.NumGoroutine() > routines; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d files and %d goroutines more", openFDs(t)-files, runtime.NumGoroutine()-routines)
		}
	}
}

// A context that ends at any moment of an acquisition, wherever that waits, ends
// it: with its own cause, or with the lock. Nothing of the attempt is left.
func TestCancelledAnywhere(t *testing.T) {
	for what, c := range map[string]struct {
		o     Options
		block func(t *testing.T, r *caproot.Root, dir string) (unblock func())
	}{
		"line": {Options{}, func(t *testing.T, r *caproot.Root, _ string) func() {
			l, err := NewManager("cancelled").Acquire(deadline(t), r, "target", Options{})
			must(t, err)
			return func() { must(t, l.Release()) }
		}},
		"kernel": {Options{}, func(t *testing.T, r *caproot.Root, _ string) func() {
			l, err := NewManager(t.Name()).Acquire(deadline(t), r, "target", Options{})
			must(t, err)
			return func() { must(t, l.Release()) }
		}},
		"peer": {Options{Retry: Retry{Min: time.Millisecond, Max: time.Millisecond}}, func(t *testing.T, _ *caproot.Root, dir string) func() {
			plant(t, dir+"/target.lock", peerRecord(t, fields{}), 0)
			return func() { must(t, os.Remove(dir+"/target.lock")) }
		}},
		"guard": {Options{KeepRecord: true}, func(t *testing.T, _ *caproot.Root, dir string) func() {
			must(t, os.Mkdir(dir+"/target.lock.reclaim", 0o755))
			return func() { must(t, os.Remove(dir+"/target.lock.reclaim")) }
		}},
		"queue": {Options{Fair: true}, func(t *testing.T, r *caproot.Root, _ string) func() {
			l, err := NewManager(t.Name()).Acquire(deadline(t), r, "target", Options{Fair: true})
			must(t, err)
			return func() { must(t, l.Release()) }
		}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r, m := openRoot(t, dir), NewManager("cancelled")
			files, routines := openFDs(t), runtime.NumGoroutine()
			unblock := c.block(t, r, dir)
			cancelAtRandom(t, m, r, c.o, unblock)
			must(t, m.Drain(deadline(t)))
			for _, name := range names(t, dir) {
				if name != "target.lock.queue" {
					t.Errorf("left: %s", name)
				}
			}
			wantNoMore(t, files, routines)
		})
	}
}

// cancelAtRandom has many acquire, each with a context that ends at some moment.
func cancelAtRandom(t *testing.T, m *Manager, r *caproot.Root, o Options, unblock func()) {
	mine := errors.New("mine")
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(rand.N(20*time.Millisecond), func() { cancel(mine) })
			l, err := m.Acquire(ctx, r, "target", o)
			if err == nil {
				err = l.Release()
			}
			if err != nil && err != mine {
				t.Error(err)
			}
		})
	}
	time.Sleep(10 * time.Millisecond)
	unblock()
	all.Wait()
}

// Drain takes every lock of the domain while others acquire them: each handle is
// either released by itself or by the drain, and at the end nothing is held.
func TestDrainWhileAcquiring(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	var all, drains sync.WaitGroup
	stop := make(chan struct{})
	drains.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := m.Drain(context.Background()); err != nil {
				t.Error(err)
			}
			m.Held()
		}
	})
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				l, err := m.Acquire(deadline(t), r, fmt.Sprint("target", i%3), Options{KeepRecord: i%2 == 0, Owner: fmt.Sprint(i % 4)})
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Verify(context.Background()); err != nil && !errors.Is(err, ErrReleased) {
					t.Error(err)
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	drains.Wait()
	must(t, m.Drain(context.Background()))
	if held := m.Held(); len(held) > 0 {
		t.Errorf("held: %+v", held)
	}
	wantNames(t, dir)
}

// Every method of a lease may be called at any time, by anybody: a renewal does
// not bring a released lease back, and each call after the release says so.
func TestLeaseFromManySides(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	routines := runtime.NumGoroutine()
	for range 20 {
		l := acquireTest(t, r, LeaseOptions{TTL: time.Hour, Timeout: 10 * time.Second})
		var all sync.WaitGroup
		for _, call := range []func() error{
			l.Release, l.Release,
			func() error { return l.Extend(ctx, 0) },
			func() error { return l.Extend(ctx, 2*time.Hour) },
			func() error { return l.Verify(ctx) },
			func() error {
				leave, err := l.Enter()
				if err == nil {
					leave()
				}
				return err
			},
			func() error { <-l.Context(ctx).Done(); return nil },
			func() error { l.Record(); l.Expired(); return nil },
		} {
			all.Go(func() {
				if err := call(); err != nil && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrFenced) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		want(t, "Extend", l.Extend(ctx, 0), ErrReleased)
		wantNames(t, dir, ".caproot")
	}
	for ctx := deadline(t); runtime.NumGoroutine() > routines && ctx.Err() == nil; time.Sleep(time.Millisecond) {
	}
	if n := runtime.NumGoroutine(); n > routines {
		t.Errorf("%d goroutines, before %d", n, routines)
	}
}
