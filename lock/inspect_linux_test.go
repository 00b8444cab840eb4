package lock

import (
	"os"
	"testing"
	"time"
)

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	state := func(what string, state, guard State) Status {
		t.Helper()
		s, err := Inspect(ctx, r, "target", Options{})
		must(t, err)
		if s.State != state || s.Guard != guard {
			t.Errorf("%s: %+v", what, s)
		}
		return s
	}
	state("nothing", Free, Free)
	if s, err := Inspect(ctx, r, "no/such/target", Options{}); err != nil || s.State != Free {
		t.Errorf("in a missing directory: %+v, %v", s, err)
	}
	l, err := m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	if s := state("held here", Held, Free); !s.Own || !s.Trusted || len(s.Payload) == 0 || time.Since(s.Since) > time.Hour {
		t.Errorf("held here: %+v", s)
	}
	must(t, l.Verify(ctx))
	must(t, l.Release())
	c := start(t, dir, "hold")
	c.hears("held")
	if s := state("held elsewhere", Held, Free); s.Own {
		t.Errorf("held elsewhere: %+v", s)
	}
	c.kill()
	state("dead", Dead, Free)
	state("dead, again", Dead, Free)
	wantNames(t, dir, "target.lock")
	leavesDeadGuard()(t, dir)
	state("dead in a reclaim", Dead, Dead)
	must(t, os.Remove(dir+"/target.lock.reclaim"))
	must(t, os.Mkdir(dir+"/target.lock.reclaim", 0o755))
	plant(t, dir+"/target.lock", peerRecord(t, fields{}), time.Hour)
	if s := state("a peer", Unknown, Unknown); !s.Stale {
		t.Errorf("a peer: %+v", s)
	}
	must(t, os.Remove(dir+"/target.lock"))
	must(t, os.Mkdir(dir+"/target.lock", 0o755))
	_, err = Inspect(ctx, r, "target", Options{})
	want(t, "a directory", err, ErrRecord)
}

// CleanUp leaves what is to be retained, and nothing else.
func TestCleanUp(t *testing.T) {
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	for name, o := range map[string]Options{"a": {}, "b": {RetainOnExit: true}, "c": {KeepRecord: true}} {
		_, err := m.Acquire(ctx, r, name, o)
		must(t, err)
	}
	l, err := m.Acquire(ctx, r, "d", Options{KeepRecord: true})
	must(t, err)
	must(t, l.Release())
	must(t, m.CleanUp(ctx))
	wantNames(t, dir, "b.lock")
	must(t, m.Drain(ctx))
	wantNames(t, dir)
}
