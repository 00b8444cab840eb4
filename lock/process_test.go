package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
)

// eachMaker runs a test for each way to make a record. The children get env.
func eachMaker(t *testing.T, test func(t *testing.T, o Options, env ...string)) {
	t.Run("removed", func(t *testing.T) { test(t, Options{}) })
	t.Run("kept", func(t *testing.T) { test(t, Options{KeepRecord: true}, "KEEP=1") })
	t.Run("named", func(t *testing.T) { test(t, Options{}, "CAPROOT_NO_TMPFILE=1") })
}

// The record of a holder that was killed is proof: the next one has the lock at
// once, without any option set.
func TestKilledHolder(t *testing.T) {
	eachMaker(t, func(t *testing.T, o Options, env ...string) {
		dir := t.TempDir()
		r, m := openRoot(t, dir), NewManager(t.Name())
		for range 3 {
			c := start(t, dir, "hold", env...)
			c.hears("held")
			_, err := m.TryAcquire(deadline(t), r, "target", o)
			want(t, "while it lives", err, ErrBusy)
			c.kill()
			wantNames(t, dir, "target.lock")
			l, err := reclaim(m)(deadline(t), r, "target", o)
			must(t, err)
			must(t, l.Release())
			must(t, m.Drain(deadline(t)))
			wantNames(t, dir)
		}
	})
}

// A waiter in the kernel gets the lock when the holder dies, and when it
// releases.
func TestWaiter(t *testing.T) {
	eachMaker(t, func(t *testing.T, o Options, env ...string) {
		for _, how := range []string{"killed", "released"} {
			t.Run(how, func(t *testing.T) {
				dir := t.TempDir()
				r, m := openRoot(t, dir), NewManager(t.Name())
				c := start(t, dir, "hold", env...)
				c.hears("held")
				got := make(chan error)
				go func() {
					l, err := m.Acquire(deadline(t), r, "target", o)
					if err == nil {
						err = l.Release()
					}
					got <- err
				}()
				awaitBlocked(t, 1)
				if how == "killed" {
					c.kill()
				} else {
					c.tell()
					c.hears("released")
					c.end()
				}
				must(t, <-got)
				must(t, m.Drain(deadline(t)))
				wantNames(t, dir)
			})
		}
	})
}

// awaitBlocked returns when so many records are waited for in the kernel.
func awaitBlocked(t testing.TB, n int) {
	t.Helper()
	for ctx := deadline(t); ; time.Sleep(time.Millisecond) {
		waits.mu.Lock()
		blocked := len(waits.m)
		waits.mu.Unlock()
		if blocked == n {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d records are waited for, want %d", blocked, n)
		}
	}
}

// Several processes add to one number; nothing but the lock protects it.
func TestCounter(t *testing.T) {
	const rounds = 200
	for name, env := range map[string][]string{"removed": nil, "kept": {"KEEP=1"}, "named": {"CAPROOT_NO_TMPFILE=1"}, "fair": {"FAIR=1"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name == "fair" {
				needsFair(t, dir)
			}
			if testfs.UnderWine() && name != "kept" {
				t.Skip("Wine opens a file that is being removed, so those who look keep its name taken")
			}
			must(t, os.WriteFile(dir+"/number", []byte("0"), 0o600))
			var all []*child
			for range 4 {
				all = append(all, start(t, dir, "count", append(env, fmt.Sprint("ROUNDS=", rounds))...))
			}
			for _, c := range all {
				c.end()
			}
			data, err := os.ReadFile(dir + "/number")
			must(t, err)
			if string(data) != fmt.Sprint(4*rounds) {
				t.Errorf("number is %s after %d additions", data, 4*rounds)
			}
			left := []string{"number"}
			if name == "fair" {
				left = append(left, "target.lock.queue")
			}
			wantNames(t, dir, left...)
		})
	}
}

// reclaim is one attempt, which is enough where the name of a removed record is
// free at once; where it may be taken for a moment the attempts go on.
func reclaim(m *Manager) func(context.Context, *caproot.Root, string, Options) (Lock, error) {
	if freesName {
		return m.TryAcquire
	}
	return m.Acquire
}

func needsFair(t *testing.T, dir string) {
	t.Helper()
	l, err := TryAcquire(deadline(t), openRoot(t, dir), "fair", Options{Fair: true})
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	must(t, l.Release())
	must(t, os.Remove(dir+"/fair.lock.queue"))
}
