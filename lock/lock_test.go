package lock

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

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
	r, ctx := openRoot(t, dir), deadline(t)
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

// deadline bounds what should take milliseconds.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wantNames checks what lies in a directory.
func wantNames(t testing.TB, dir string, wanted ...string) {
	t.Helper()
	got := names(t, dir)
	if len(got) != len(wanted) {
		t.Fatalf("in the directory: %q, want %q", got, wanted)
	}
	for i, name := range wanted {
		if got[i] != name {
			t.Fatalf("in the directory: %q, want %q", got, wanted)
		}
	}
}

// A process that was killed leaves a record that the next one replaces, where
// the system's locks are proof; a live one is waited for on every system.
func TestDeadAndAlive(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	c := start(t, dir, "hold")
	c.hears("held")
	_, err := m.TryAcquire(deadline(t), r, "target", Options{})
	want(t, "while it lives", err, ErrBusy)
	got := make(chan error)
	go func() {
		l, err := m.Acquire(deadline(t), r, "target", Options{})
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	c.tell()
	c.hears("released")
	must(t, <-got)
	c.end()
	c = start(t, dir, "hold")
	c.hears("held")
	c.kill()
	l, err := m.Acquire(deadline(t), r, "target", Options{})
	must(t, err)
	if !m.Held()[0].Witness {
		t.Skip("locks of this file system are not taken for proof")
	}
	must(t, l.Release())
	wantNames(t, dir)
}
