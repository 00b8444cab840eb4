package lock

import (
	"context"
	"os"
	"testing"
)

// foldingDir is a directory that takes names which differ by case for one.
func foldingDir(t *testing.T) string {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/probe", nil, 0o600))
	_, err := os.Lstat(dir + "/PROBE")
	must(t, os.Remove(dir+"/probe"))
	if err != nil {
		return mountFolding(t)
	}
	return dir
}

// Two spellings of one name exclude each other, and a nested call by the other one
// is found to be nested: their record is one.
func TestFoldedNames(t *testing.T) {
	dir := foldingDir(t)
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	_, err = m.TryAcquire(ctx, r, "TARGET", Options{})
	want(t, "another spelling", err, ErrBusy)
	_, err = m.Acquire(l.Context(ctx), r, "TARGET", Options{})
	want(t, "nested by another spelling", err, ErrNested)
	must(t, l.Release())
	must(t, m.With(ctx, r, "Target", Options{}, func(context.Context) error { return nil }))
	wantNames(t, dir)
}

// A call is under a record while the lock that its context is of holds that.
func TestUnderRecord(t *testing.T) {
	r, m, ctx := openRoot(t, t.TempDir()), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{})
	must(t, err)
	other, err := m.Acquire(ctx, r, "other", Options{})
	must(t, err)
	id := l.(*handle).h.record.id
	within := l.Context(other.Context(ctx))
	for what, c := range map[string]struct {
		ctx  context.Context
		want bool
	}{"its own": {within, true}, "another's": {other.Context(ctx), false}, "no lock's": {ctx, false}} {
		if q := (request{ctx: c.ctx}); q.underRecord(id) != c.want {
			t.Errorf("%s context: under the record %v", what, !c.want)
		}
	}
	must(t, other.Release())
	must(t, l.Release())
	if q := (request{ctx: within}); q.underRecord(id) {
		t.Error("under a record that was released")
	}
}
