package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/faultfs"
	"github.com/caproot/caproot/lock"
)

// lockKinds are the file systems on which locks are tried.
func lockKinds() map[string]faultfs.Options {
	k := kinds()
	k["lying"] = faultfs.Options{NoUnnamed: true, Locks: faultfs.LocksIgnored}
	return k
}

// A file system whose locks are no proof gets plain records, excludes by them, and
// says so.
func TestSidecarWithoutWitness(t *testing.T) {
	for kind, o := range lockKinds() {
		t.Run(kind, func(t *testing.T) {
			_, dir := mounted(t, o)
			r := opened(t, dir, caproot.Workspace())
			m := lock.NewManager(t.Name())
			l, err := m.Acquire(t.Context(), r, "target", lock.Options{})
			must(t, err)
			if held := m.Held(); len(held) != 1 || held[0].Witness {
				t.Errorf("held %+v", held)
			}
			s, err := lock.Inspect(t.Context(), r, "target", lock.Options{})
			must(t, err)
			if s.Trusted || s.State == lock.Dead || s.State == lock.Free {
				t.Errorf("status %+v", s)
			}
			_, err = lock.TryAcquire(t.Context(), r, "target", lock.Options{})
			want(t, "second", err, lock.ErrBusy)
			must(t, l.Verify(t.Context()))
			must(t, l.Release())
			s, err = lock.Inspect(t.Context(), r, "target", lock.Options{})
			must(t, err)
			if s.State != lock.Free {
				t.Errorf("status %+v", s)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("left %v", entries)
			}
		})
	}
}

// A holder that was killed there is not proved dead: its record stays until it is
// stale and the caller approves.
func TestDeadHolderWithoutWitness(t *testing.T) {
	for kind, o := range lockKinds() {
		t.Run(kind, func(t *testing.T) {
			_, dir := mounted(t, o)
			cmd := actor(t, "hold", dir)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
				t.Fatalf("%q, %v", line, err)
			}
			must(t, cmd.Process.Kill())
			cmd.Wait()
			r := opened(t, dir, caproot.Workspace())
			_, err = lock.TryAcquire(t.Context(), r, "target", lock.Options{})
			want(t, "fresh", err, lock.ErrBusy)
			must(t, os.Chtimes(dir+"/target.lock", time.Time{}, time.Now().Add(-time.Hour)))
			_, err = lock.TryAcquire(t.Context(), r, "target", lock.Options{})
			want(t, "stale", err, lock.ErrStale)
			l, err := lock.TryAcquire(t.Context(), r, "target", lock.Options{
				StaleRecovery: lock.RemoveIfUnchanged, ShouldRemoveStale: func(lock.StaleRecord) (bool, error) { return true, nil },
			})
			must(t, err)
			must(t, l.Release())
		})
	}
}

// No update is lost between processes, by the lock or by state.Update.
func TestCountingOnStrangeFileSystems(t *testing.T) {
	for kind, o := range lockKinds() {
		t.Run(kind, func(t *testing.T) {
			_, dir := mounted(t, o)
			must(t, os.WriteFile(dir+"/n", []byte("0"), 0o600))
			actors(t, counters, "count", dir)
			actors(t, counters, "update", dir)
			for _, name := range []string{"n", "n.json"} {
				data, err := os.ReadFile(dir + "/" + name)
				must(t, err)
				if n, _ := strconv.Atoi(strings.TrimSpace(string(data))); n != counters*rounds {
					t.Errorf("%s counts %d of %d", name, n, counters*rounds)
				}
			}
		})
	}
}

// case 72, 73: where the number of a file does not last, a record cannot be told
// from another: nothing is acquired, or it is compromised, and nothing is removed.
func TestSidecarWithoutNumbers(t *testing.T) {
	_, dir := mounted(t, faultfs.Options{NoUnnamed: true, Numbers: faultfs.NumbersNewOnLookup})
	r := opened(t, dir, caproot.Workspace())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	l, err := lock.TryAcquire(ctx, r, "target", lock.Options{})
	if err == nil {
		err = l.Release()
	}
	want(t, "acquisition", err, lock.ErrBusy)
	// The record, and the private one by which the device was tried, once.
	_, err = lock.TryAcquire(ctx, r, "target", lock.Options{})
	want(t, "again", err, lock.ErrBusy)
	if entries, _ := os.ReadDir(dir); len(entries) > 2 {
		t.Errorf("left %v", entries)
	}
}

// Advisory locks and leases are the system's; where it has none, or gives them to
// everyone, they say so.
func TestSystemLocks(t *testing.T) {
	for kind, c := range map[string]struct {
		o               faultfs.Options
		advisory, lease error
		peer            string
	}{
		"kernel":  {faultfs.Options{}, nil, nil, "busy"},
		"refused": {faultfs.Options{Locks: faultfs.LocksRefused}, lock.ErrUnsupported, lock.ErrUnsupported, "unsupported"},
		"ignored": {faultfs.Options{Locks: faultfs.LocksIgnored}, nil, lock.ErrUnsupported, ""},
	} {
		t.Run(kind, func(t *testing.T) {
			_, dir := mounted(t, c.o)
			r := opened(t, dir, caproot.Workspace())
			l, err := lock.AcquireAdvisory(t.Context(), r, "adv", lock.AdvisoryOptions{})
			want(t, "advisory", err, c.advisory)
			out, err := actor(t, "advisory", dir).Output()
			must(t, err)
			if got := strings.TrimSpace(string(out)); got != c.peer {
				t.Errorf("another process: %q, want %q", got, c.peer)
			}
			if l != nil {
				must(t, l.Release())
			}
			lease, err := lock.AcquireLease(t.Context(), r, "target", lock.LeaseOptions{})
			want(t, "lease", err, c.lease)
			if err == nil {
				if lease.Token() == 0 {
					t.Error("no token")
				}
				fenced, err := r.Fenced(lease)
				must(t, err)
				_, err = fenced.Put("f", []byte("x"), caproot.PutOptions{})
				must(t, err)
				must(t, fenced.Close())
				must(t, lease.Release())
			}
		})
	}
}

// Each request of an acquisition and a release fails: whoever has the lock knows
// it, and a record that is left is one that the error speaks of.
func TestEveryRequestOfALockFails(t *testing.T) {
	for kind, o := range lockKinds() {
		f, dir := mounted(t, o)
		var runs, acquired, left int
		warm, err := lock.TryAcquire(t.Context(), opened(t, dir, caproot.Workspace()), "warm", lock.Options{})
		must(t, err)
		must(t, warm.Release())
		for x := (fault{at: 1, errno: syscall.EIO}); ; x.at++ {
			x.hit = faultfs.Call{}
			run := dir + "/run" + strconv.Itoa(x.at)
			must(t, os.Mkdir(run, 0o755))
			r := opened(t, run, caproot.Workspace())
			open := descriptors(t)
			f.Set(x.rule())
			l, err := lock.TryAcquire(t.Context(), r, "target", lock.Options{})
			var rerr error
			if err == nil {
				acquired++
				rerr = l.Release()
			}
			f.Set(nil)
			if x.hit.Op == "" {
				must(t, errors.Join(err, rerr))
				break
			}
			runs++
			what := fmt.Sprintf("%s, %v: %v, %v", kind, x.hit, err, rerr)
			if rerr != nil { // an I/O failure: still held, and the release may be repeated
				must(t, l.Release())
			}
			if n := descriptors(t); n != open {
				t.Errorf("%s: %d descriptors, had %d", what, n, open)
			}
			_, err = os.Lstat(run + "/target.lock")
			if err == nil {
				// Made by an open that then could not look at what it had opened. It is
				// empty, which is no proof of anything, and stays.
				if left++; x.hit.Op != "getattr" {
					t.Error("left:", what)
				}
			}
			r.Close()
		}
		t.Logf("%-6s %3d runs, %3d acquired, %d records left", kind, runs, acquired, left)
	}
}
