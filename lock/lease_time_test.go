package lock

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caproot/caproot"
)

// testClock is the time of a synctest bubble, and jumps.
type testClock struct {
	start  time.Time
	jumped atomic.Int64
}

func newTestClock() *testClock { return &testClock{start: time.Now()} }

func (c *testClock) now() (time.Duration, error) {
	return time.Since(c.start) + time.Duration(c.jumped.Load()), nil
}

func (c *testClock) jump(d time.Duration) { c.jumped.Add(int64(d)) }

// leased runs a test in a bubble with a lease of 9 s, renewed every 3 s.
func leased(t *testing.T, o LeaseOptions, test func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, c := openRoot(t, dir), newTestClock()
		o.TTL = 9 * time.Second
		l, err := acquireLease(t.Context(), r, "target", o, c)
		must(t, err)
		defer l.Release()
		test(t, dir, r, l, c)
	})
}

// freeze ends the beats of a lease, as SIGSTOP does.
func (l *Lease) freeze() {
	close(l.stop)
	<-l.done
	l.stop, l.done = make(chan struct{}), make(chan struct{})
	close(l.done)
}

func TestBeats(t *testing.T) {
	leased(t, LeaseOptions{}, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
		first := l.Record()
		time.Sleep(time.Hour)
		synctest.Wait() // for the beat that is due at this very moment
		if now := l.Record(); l.Expired() || now.HeartbeatAt.Sub(first.HeartbeatAt) < 59*time.Minute || now.LockID != first.LockID {
			t.Errorf("expired %v, %+v", l.Expired(), now)
		}
		raw, err := os.ReadFile(dir + "/target.lock")
		must(t, err)
		if onDisk, ok := parseLease(raw); !ok || onDisk.HeartbeatAt.UnixMilli() != l.Record().HeartbeatAt.UnixMilli() {
			t.Errorf("%s", raw)
		}
	})
}

// Case 145: after a suspension of ten minutes the loss is reported once, and what
// the holder writes then is refused, also while nobody has taken over.
func TestSuspension(t *testing.T) {
	var reports atomic.Int32
	o := LeaseOptions{OnEvicted: func(error) { reports.Add(1) }}
	leased(t, o, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
		fenced, err := r.Fenced(l)
		must(t, err)
		defer fenced.Close()
		must(t, fenced.WriteFile("target", []byte("mine"), 0o600))
		ctx := l.Context(context.Background())
		c.jump(10 * time.Minute)
		want(t, "write", fenced.WriteFile("target", []byte("late"), 0o600), ErrLeaseLost)
		time.Sleep(time.Minute)
		synctest.Wait()
		<-l.Lost()
		if !l.Expired() || reports.Load() != 1 || !errors.Is(context.Cause(ctx), ErrLeaseLost) {
			t.Errorf("expired %v, %d reports, %v", l.Expired(), reports.Load(), context.Cause(ctx))
		}
		want(t, "Extend", l.Extend(t.Context(), 0), ErrLeaseLost)
		want(t, "Release", l.Release(), ErrLeaseLost)
		if data, _ := os.ReadFile(dir + "/target"); string(data) != "mine" {
			t.Errorf("%q", data)
		}
	})
}

// Case 146: the wall clock of the holder is an hour off, ahead and behind. A
// contender neither steals a lease that is renewed, nor waits for ever.
func TestWallClocks(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			leased(t, LeaseOptions{}, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
				skewed := func() {
					l.mu.Lock()
					defer l.mu.Unlock()
					record := l.record
					record.HeartbeatAt = time.Now().Add(skew)
					must(t, l.rewrite(&record))
				}
				skewed()
				contender := LeaseOptions{Timeout: 40 * time.Second}
				_, err := acquireLease(t.Context(), r, "target", contender, c)
				want(t, "steal", err, ErrBusy)
				skewed()
				l.freeze()
				s, err := InspectLease(t.Context(), r, "target", LeaseOptions{})
				must(t, err)
				if s.Expires.After(time.Now().Add(9 * time.Second)) {
					t.Errorf("expires %v from now", time.Until(s.Expires))
				}
				before := time.Now()
				next, err := acquireLease(t.Context(), r, "target", contender, c)
				must(t, err)
				if waited := time.Since(before); waited < 9*time.Second || waited > 10*time.Second {
					t.Errorf("waited %v", waited)
				}
				want(t, "release of the late", l.Release(), ErrLeaseLost)
				must(t, next.Verify(t.Context()))
				must(t, next.Release())
			})
		})
	}
}

// A contender may wait longer than the holder asked for, and not shorter.
func TestGrace(t *testing.T) {
	leased(t, LeaseOptions{}, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
		l.freeze()
		before := time.Now()
		next, err := acquireLease(t.Context(), r, "target", LeaseOptions{TTL: MinTTL, Grace: time.Minute, Timeout: time.Hour}, c)
		must(t, err)
		defer next.Release()
		if waited := time.Since(before); waited < 69*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

// Case 151: failures of the system do not lose a lease, but for the time they
// cost, and are told in time.
func TestFailingBeats(t *testing.T) {
	for name, failures := range map[string]int{"once": 1, "twice": 2, "always": 1000} {
		t.Run(name, func(t *testing.T) {
			var late atomic.Int32
			o := LeaseOptions{Heartbeat: 2 * time.Second, OnLate: func(err error, left time.Duration) {
				if left <= 0 || left > 9*time.Second {
					t.Errorf("%v left", left)
				}
				late.Add(1)
			}}
			leased(t, o, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
				unwritable, err := os.Open(dir + "/target.lock")
				must(t, err)
				defer unwritable.Close()
				swap := func(f *os.File) *os.File {
					l.mu.Lock()
					defer l.mu.Unlock()
					old := l.recordOf
					l.recordOf = f
					return old
				}
				good := swap(unwritable)
				time.Sleep(time.Duration(2*failures)*time.Second + time.Second)
				swap(good)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if lost := l.Expired(); lost != (failures > 4) || late.Load() != 1 {
					t.Errorf("lost %v, told %d times", lost, late.Load())
				}
			})
		})
	}
}

// A beat that finds a torn record writes nothing; found whole in time, the lease
// goes on, else it ends with its time.
func TestTornRecord(t *testing.T) {
	for name, repaired := range map[string]bool{"repaired": true, "torn for good": false} {
		t.Run(name, func(t *testing.T) {
			leased(t, LeaseOptions{}, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
				whole, err := os.ReadFile(dir + "/target.lock")
				must(t, err)
				torn := whole[:len(whole)/2]
				must(t, os.WriteFile(dir+"/target.lock", torn, 0o600))
				time.Sleep(4 * time.Second)
				if data, _ := os.ReadFile(dir + "/target.lock"); string(data) != string(torn) || l.Expired() {
					t.Errorf("%q, expired %v", data, l.Expired())
				}
				if repaired {
					must(t, os.WriteFile(dir+"/target.lock", whole, 0o600))
				}
				time.Sleep(20 * time.Second)
				if l.Expired() == repaired {
					t.Errorf("expired %v", l.Expired())
				}
			})
		})
	}
}
