package caproot

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// case 193: a file system without the full flush gets the plain one, and the
// answer says so; another failure is a failure.
func TestFullSync(t *testing.T) {
	for _, c := range []struct {
		full, plain, want error
		plainly           bool
	}{
		{nil, nil, nil, false},
		{syscall.ENOTSUP, nil, errPartSync, true},
		{syscall.EOPNOTSUPP, nil, errPartSync, true},
		{syscall.ENOTTY, nil, errPartSync, true},
		{syscall.EINVAL, nil, errPartSync, true},
		{syscall.EINVAL, syscall.EIO, syscall.EIO, true},
		{syscall.EIO, nil, syscall.EIO, false},
		{syscall.ENOSPC, nil, syscall.ENOSPC, false},
	} {
		called := false
		err := fullSync(func() error { return c.full }, func() error { called = true; return c.plain })
		if !errors.Is(err, c.want) || called != c.plainly {
			t.Errorf("full %v, plain %v: %v, plain called: %v", c.full, c.plain, err, called)
		}
	}
}

// case 193: the receipt says which flush it was, once; a file of the caller's has
// no receipt to say it in, and is flushed all the same.
func TestPartSyncIsTold(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s := hook(r, answers(map[string]error{"sync": errPartSync}))
		put, err := r.Put("f", []byte("x"), PutOptions{Durability: DurabilityDir})
		must(t, err)
		appended, err := r.Append("f", []byte("y"), AppendOptions{Durability: DurabilityDir})
		must(t, err)
		for _, receipt := range []struct {
			what string
			lost []string
			got  Durability
		}{{"put", put.Lost, put.Durability}, {"append", appended.Lost, appended.Durability}} {
			n := strings.Count(strings.Join(receipt.lost, " "), "full-sync")
			if n != 1 || slices.Contains(receipt.lost, "dir-sync") || receipt.got != DurabilityDir {
				t.Errorf("%s: lost %q, durability %v", receipt.what, receipt.lost, receipt.got)
			}
		}
		if s.count("sync") != 4 {
			t.Errorf("flushes: %q", s.log)
		}
		f, err := r.OpenView("f", 1, 0)
		must(t, err)
		must(t, f.Sync())
		must(t, f.Close())
	})
}
