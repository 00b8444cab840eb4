package lock

import (
	"context"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"testing"
	"time"
)

// advisoryTap looks into the queue before a lock file.
type advisoryTap struct {
	t *testing.T
	l *advisoryLine
}

func advisoryLineOf(t *testing.T, dir, name string) advisoryTap {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name))
	must(t, err)
	defer f.Close()
	o, err := look(f)
	must(t, err)
	return advisoryTap{t, advisoryLines.enter(o.id, trusted(f))}
}

func (a advisoryTap) done() { advisoryLines.leave(a.l) }

// until waits for a state that nothing announces.
func (a advisoryTap) until(what string, state func(l *advisoryLine) bool) {
	a.t.Helper()
	for range 20_000 {
		a.l.mu.Lock()
		reached := state(a.l)
		a.l.mu.Unlock()
		if reached {
			return
		}
		time.Sleep(time.Millisecond)
	}
	a.t.Fatal("never reached: ", what)
}

func (a advisoryTap) untilBlocked(n int) {
	a.t.Helper()
	a.until("blocked threads", func(l *advisoryLine) bool {
		have := 0
		for _, w := range l.blocked {
			if w != nil && w.client != nil {
				have++
			}
		}
		return have == n
	})
}

func (a advisoryTap) untilWaiting(n int) {
	a.t.Helper()
	a.until("waiting calls", func(l *advisoryLine) bool { return l.waiting.Len() == n })
}

// Case 139: one object, a hundred goroutines; first come, first served, and one
// thread for all of them.
func TestAdvisoryGoroutines(t *testing.T) {
	const goroutines = 100
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	f, err := OpenAdvisory(r, "l")
	must(t, err)
	other := startAdvisory(t, dir, "hold l")
	other.hears("held")
	line := advisoryTap{t, f.line}
	threads := pprof.Lookup("threadcreate").Count()
	var order []int // guarded by the lock, as the race detector is to see
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			l, err := f.Acquire(ctx, AdvisoryOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, i)
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
		line.untilBlocked(1)
		line.untilWaiting(i)
	}
	if n := pprof.Lookup("threadcreate").Count() - threads; n > goroutines/4 {
		t.Errorf("%d threads for %d goroutines", n, goroutines)
	}
	other.tell()
	wg.Wait()
	for i := range order {
		if order[i] != i {
			t.Fatalf("order %v", order)
		}
	}
	must(t, f.Close())
	wantIdle(t)
}

// Case 139: shared and exclusive locks of one object and of others, mixed.
func TestAdvisoryReadersAndWriters(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	f, err := OpenAdvisory(r, "l")
	must(t, err)
	value := 0
	acquire := []func(o AdvisoryOptions) (Lock, error){
		func(o AdvisoryOptions) (Lock, error) { return f.Acquire(ctx, o) },
		func(o AdvisoryOptions) (Lock, error) { return AcquireAdvisory(ctx, r, "l", o) },
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 25 {
				shared := (i+j)%4 != 0
				l, err := acquire[(i+j/2)%2](AdvisoryOptions{Shared: shared})
				if err != nil {
					t.Error(err)
					return
				}
				if shared {
					_ = value
				} else {
					value++
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if value != 250 {
		t.Errorf("counted to %d, want 250", value)
	}
	must(t, f.Close())
	wantIdle(t)
}

// Shared locks are held together, also by calls that had to wait.
func TestAdvisoryReadersTogether(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	other := startAdvisory(t, dir, "hold l")
	other.hears("held")
	line := advisoryLineOf(t, dir, "l")
	var inside, wg sync.WaitGroup
	for i := range 3 {
		inside.Add(1)
		wg.Go(func() {
			l, err := AcquireAdvisory(ctx, r, "l", AdvisoryOptions{Shared: true})
			inside.Done()
			inside.Wait()
			if err == nil {
				err = l.Release()
			}
			if err != nil {
				t.Error(err)
			}
		})
		line.untilBlocked(1)
		line.untilWaiting(i)
	}
	other.tell()
	wg.Wait()
	line.done()
	wantIdle(t)
}

// Shared locks do not pass by an exclusive one that waits.
func TestAdvisoryReadersQueueBehindWriter(t *testing.T) {
	r, ctx := openRoot(t, t.TempDir()), context.Background()
	f, err := OpenAdvisory(r, "l")
	must(t, err)
	reader, err := f.Acquire(ctx, AdvisoryOptions{Shared: true})
	must(t, err)
	ctx, cancel := context.WithCancel(ctx)
	got := make(chan error)
	go func() {
		_, err := f.Acquire(ctx, AdvisoryOptions{})
		got <- err
	}()
	line := advisoryTap{t, f.line}
	line.untilWaiting(1)
	want(t, "shared behind exclusive", tryAdvisory(t, r, "l", true), ErrBusy)
	second := make(chan error)
	go func() {
		l, err := f.Acquire(context.Background(), AdvisoryOptions{Shared: true})
		if err == nil {
			err = l.Release()
		}
		second <- err
	}()
	line.untilWaiting(2)
	cancel()
	want(t, "exclusive", <-got, context.Canceled)
	must(t, <-second) // the way is free without a release
	must(t, reader.Release())
	must(t, f.Close())
	wantIdle(t)
}
