package state

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

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

func openRoot(t testing.TB, dir string, p caproot.Policy) *caproot.Root {
	t.Helper()
	r, err := caproot.Open(dir, p)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

type counter struct{ N int }

func add(c *counter) error { c.N++; return nil }

// eachKind runs a test with both kinds of lock.
func eachKind(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range map[string]Options{
		"sidecar": {Timeout: time.Minute}, "lease": {Timeout: time.Minute, Lease: &lock.LeaseOptions{TTL: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

func TestNested(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		r := openRoot(t, t.TempDir(), caproot.Workspace())
		err := UpdateContext(context.Background(), r, "f", func(ctx context.Context, c *counter) error {
			want(t, "same file", Update(ctx, r, "./f", add, o), lock.ErrNested)
			must(t, Update(ctx, r, "g", add, o))
			brief := o
			brief.Timeout = time.Millisecond
			want(t, "same file, context lost", Update(context.Background(), r, "f", add, brief), lock.ErrBusy)
			ranked := o
			ranked.Rank = 1
			return add(c)
		}, o)
		must(t, err)
		ranked, lower := o, o
		ranked.Rank, lower.Rank = 2, 1
		must(t, UpdateContext(context.Background(), r, "f", func(ctx context.Context, c *counter) error {
			want(t, "downwards", Update(ctx, r, "g", add, lower), lock.ErrOrder)
			return nil
		}, ranked))
	})
}

func TestFragments(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir, caproot.Workspace())
	ids, err := Fragments(r, "f")
	if err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
	for _, id := range []string{"", ".", "..", "a/b", `a\b`, ".hidden", "con", "a:b", "../x"} {
		want(t, "id "+id, PutFragment(r, "f", id, 1, Options{}), caproot.ErrName)
	}
	for id, n := range map[string]int{"b": 2, "a": 1, "c": 4} {
		must(t, PutFragment(r, "f", id, counter{n}, Options{}))
	}
	must(t, PutFragment(r, "f", "c", counter{8}, Options{}))
	must(t, RemoveFragment(r, "f", "b"))
	must(t, RemoveFragment(r, "f", "b"))
	must(t, os.WriteFile(dir+"/f.d/note.txt", nil, 0o600))
	must(t, os.Symlink("a.json", dir+"/f.d/link.json"))
	var order []string
	merge := func() error {
		return Merge(context.Background(), r, "f", func(c *counter, id string, part counter) error {
			order = append(order, id)
			c.N += part.N
			return nil
		}, Options{})
	}
	must(t, merge())
	if diff := cmp.Diff([]string{"a", "c"}, order); diff != "" {
		t.Error(diff)
	}
	c, err := Read[counter](r, "f")
	if err != nil || c.N != 9 {
		t.Errorf("%+v, %v", c, err)
	}
	must(t, os.WriteFile(dir+"/f.d/d.json", []byte("{"), 0o600))
	want(t, "torn fragment", merge(), io.ErrUnexpectedEOF)
	if c, err := Read[counter](r, "f"); err != nil || c.N != 9 {
		t.Errorf("%+v, %v", c, err)
	}
}
