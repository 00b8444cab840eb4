package lock

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/caproot/caproot"
)

func openRoot(t testing.TB, dir string) *caproot.Root {
	t.Helper()
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

// names lists a directory.
func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestAcquireRelease(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	for name, o := range map[string]Options{"plain": {}, "kept": {KeepRecord: true}, "nested": {LockPath: "a/b/l"}} {
		t.Run(name, func(t *testing.T) {
			m := NewManager(t.Name())
			for range 3 {
				l, err := m.Acquire(ctx, r, "target", o)
				must(t, err)
				must(t, l.Verify(ctx))
				_, err = m.TryAcquire(ctx, r, "target", o)
				want(t, "second", err, ErrBusy)
				_, err = NewManager(t.Name()+"2").TryAcquire(ctx, r, "target", o)
				want(t, "second of another domain", err, ErrBusy)
				_, err = m.TryAcquire(l.Context(ctx), r, "./target", o)
				want(t, "nested", err, ErrNested)
				must(t, l.Release())
				must(t, l.Release())
			}
			must(t, m.Drain(ctx))
		})
	}
	must(t, os.RemoveAll(dir+"/a"))
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
