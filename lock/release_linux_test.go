package lock

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { children["give"] = childGive }

// A release when a peer may judge the record stale, by the date in it or its time
// of modification, waits for the peer's guard, and makes one of its own where
// there is none.
func TestReleasePastStale(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	dated := func(context.Context) (any, error) {
		return fields{"createdAt": old.UTC().Format(time.RFC3339)}, nil
	}
	unsure := func(context.Context) (any, error) { return fields{"createdAt": "in the year 2000"}, nil }
	for what, c := range map[string]struct {
		o     Options
		ready func(t *testing.T, h *hold, record string)
	}{
		"not refreshed for long": {Options{}, func(t *testing.T, h *hold, _ string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.fresh = old
		}},
		"old by its date":       {Options{Payload: dated}, func(*testing.T, *hold, string) {}},
		"old by an unread date": {Options{Payload: unsure}, func(*testing.T, *hold, string) {}},
		"the wall clock was set": {Options{}, func(t *testing.T, _ *hold, record string) {
			must(t, os.Chtimes(record, old, old))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
			c.o.StaleAfter = time.Minute
			l, err := m.Acquire(ctx, r, "target", c.o)
			must(t, err)
			c.ready(t, l.(*handle).h, dir+"/target.lock")
			must(t, os.Mkdir(dir+"/target.lock.reclaim", 0o755))
			want(t, "release under a peer's guard", l.Release(), ErrBusy)
			wantNames(t, dir, "target.lock", "target.lock.reclaim")
			time.AfterFunc(20*time.Millisecond, func() { os.Remove(dir + "/target.lock.reclaim") })
			must(t, l.Release())
			wantNames(t, dir)
		})
	}
}

// A guard whose maker died keeps a release from nothing, though nobody contends
// who would clear it.
func TestReleasePastDeadGuard(t *testing.T) {
	dir := t.TempDir()
	leavesDeadGuard()(t, dir)
	must(t, os.Rename(dir+"/target.lock.reclaim", dir+"/other.lock.reclaim.later"))
	must(t, os.Remove(dir+"/target.lock"))
	l, err := NewManager(t.Name()).Acquire(deadline(t), openRoot(t, dir), "other", Options{})
	must(t, err)
	must(t, os.Rename(dir+"/other.lock.reclaim.later", dir+"/other.lock.reclaim"))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir+"/other.lock", old, old))
	must(t, l.Release())
	// Those who died may have left stages of records.
	_, err = Sweep(openRoot(t, dir), ".")
	must(t, err)
	wantNames(t, dir)
}

// childGive acquires, and must hear that its record was another one when it gives
// it back.
func childGive() {
	l, err := Acquire(context.Background(), childRoot(), "target", childOptions())
	childMust(err)
	say("begins")
	if err := l.Release(); !errors.Is(err, ErrCompromised) {
		childMust(errors.Join(errors.New("released"), err))
	}
}

// case 109: what a kept record is taken for may be a peer's by the time it is
// moved, between a comparison and the call after it; that one is put back.
func TestKeptIsAnother(t *testing.T) {
	dir := t.TempDir()
	peer := peerRecord(t, fields{"pid": 1})
	moves := 0
	status := trace(t, dir, "give", func(_ int, nr uint64) bool {
		if nr == unix.SYS_RENAMEAT2 {
			if moves++; moves == 1 {
				must(t, os.WriteFile(dir+"/.new", peer, 0o600))
				must(t, os.Rename(dir+"/.new", dir+"/target.lock"))
			}
		}
		return false
	}, "KEEP=1")
	if status != 0 || moves < 2 {
		t.Errorf("status %d, %d moves", status, moves)
	}
	wantNames(t, dir, "target.lock")
	wantFile(t, dir+"/target.lock", peer)
}
