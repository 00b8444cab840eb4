package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/faultfs"
	"github.com/caproot/caproot/identity"
)

const (
	before = "old content, whole"
	after  = "new content, longer and whole"
)

// faultVerb is a verb at work on a directory that holds f, g, dir/x and tree/.
// names has what each name may hold afterwards, besides what it held; "" is
// nothing. steps is true for a verb that may end half way, each name old or new.
type faultVerb struct {
	run   func(r *caproot.Root) (identity.Receipt, error)
	names map[string]string
	steps bool
}

var faultVerbs = map[string]faultVerb{
	"Put": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.Put("f", []byte(after), caproot.PutOptions{})
	}, map[string]string{"f": after}, false},
	"Put new": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.Put("new", []byte(after), caproot.PutOptions{})
	}, map[string]string{"new": after}, false},
	"Put NoReplace": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.Put("new", []byte(after), caproot.PutOptions{NoReplace: true})
	}, map[string]string{"new": after}, false},
	"Put Parents": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.Put("a/b/new", []byte(after), caproot.PutOptions{Parents: true})
	}, map[string]string{"a/": "/", "a/b/": "/", "a/b/new": after}, true},
	"PutFrom": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.PutFrom(context.Background(), "f", bytes.NewReader([]byte(after)), caproot.PutOptions{Digest: true})
	}, map[string]string{"f": after}, false},
	"Batch": {func(r *caproot.Root) (identity.Receipt, error) {
		b := r.Batch(caproot.BatchOptions{})
		defer b.Abort()
		for _, name := range []string{"f", "new"} {
			if err := b.Put(name, []byte(after), caproot.PutOptions{}); err != nil {
				return identity.Receipt{}, err
			}
		}
		report, err := b.Commit(context.Background())
		if len(report.Published) > 0 {
			return report.Published[0], err
		}
		return identity.Receipt{}, err
	}, map[string]string{"f": after, "new": after}, true},
	"Move": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.Move("f", "dir/f", caproot.MoveOptions{})
	}, map[string]string{"f": "", "dir/f": before}, true},
	"Move Replace": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.Move("f", "g", caproot.MoveOptions{Replace: true})
	}, map[string]string{"f": "", "g": before}, false},
	"Remove": {func(r *caproot.Root) (identity.Receipt, error) {
		return identity.Receipt{}, r.Remove("f")
	}, map[string]string{"f": ""}, true},
	"RemoveTree": {func(r *caproot.Root) (identity.Receipt, error) {
		_, err := r.RemoveTree(context.Background(), "tree", caproot.TreeLimits{})
		return identity.Receipt{}, err
	}, map[string]string{"tree/": "", "tree/x": "", "tree/sub/": "", "tree/sub/y": ""}, true},
	"CopyIn": {func(r *caproot.Root) (identity.Receipt, error) {
		return r.CopyIn(context.Background(), "f", caproot.Source{Root: r, Name: "src"}, caproot.CopyOptions{})
	}, map[string]string{"f": after}, false},
	"ReadFile": {func(r *caproot.Root) (identity.Receipt, error) {
		data, err := r.ReadFile("f")
		if err == nil && string(data) != before {
			err = fmt.Errorf("read %q", data)
		}
		return identity.Receipt{}, err
	}, nil, false},
	"AppendFile": {func(r *caproot.Root) (identity.Receipt, error) {
		data, err := r.AppendFile([]byte("x"), "f")
		if err == nil && string(data) != "x"+before {
			err = fmt.Errorf("read %q", data)
		}
		return identity.Receipt{}, err
	}, nil, false},
}

// fill makes the tree that the verbs work on.
func fill(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{"/dir", "/tree/sub"} {
		must(t, os.MkdirAll(dir+d, 0o755))
	}
	for name, content := range map[string]string{"/f": before, "/g": "g", "/src": after, "/dir/x": "x", "/tree/x": "x", "/tree/sub/y": "y"} {
		must(t, os.WriteFile(dir+name, []byte(content), 0o644))
	}
}

// fault is one request that fails: the one with number at, counted from 1.
type fault struct {
	at    int
	errno syscall.Errno
	after bool
	hit   faultfs.Call
}

func (x *fault) rule() faultfs.Rule {
	n := 0
	return func(c faultfs.Call) faultfs.Answer {
		if n++; n != x.at {
			return faultfs.Answer{}
		}
		x.hit = c
		return faultfs.Answer{Errno: x.errno, After: x.after}
	}
}

// tally is a row of the table of results.
type tally struct{ runs, succeeded, refused, unknown, left int }

// case 94, 106, lesson 20: each request of each verb fails, on each kind of file
// system, before it is carried out and after it. No name holds anything but what
// it held or what it was to hold; an error means that nothing was published
// unless the receipt says so; no descriptor is lost; what is left is a stage that
// Sweep removes.
func TestEveryRequestFails(t *testing.T) {
	for kind, o := range kinds() {
		t.Run(kind, func(t *testing.T) {
			f, dir := mounted(t, o)
			for _, verb := range slices.Sorted(maps.Keys(faultVerbs)) {
				var row tally
				for _, after := range []bool{false, true} {
					x := fault{after: after}
					for x.at = 1; ; x.at++ {
						x.errno = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES}[x.at%4]
						if x.hit = (faultfs.Call{}); !tryFault(t, f, dir, verb, &x, &row, o.NoLinks) {
							break
						}
					}
				}
				t.Logf("%-14s %4d runs, %4d succeeded all the same, %4d refused, %3d told as published, %3d stages left", verb, row.runs, row.succeeded, row.refused, row.unknown, row.left)
			}
		})
	}
}

// tryFault tells whether the verb came as far as the fault.
func tryFault(t *testing.T, f *faultfs.FS, base, verb string, x *fault, row *tally, bare bool) bool {
	t.Helper()
	f.Set(nil)
	dir := base + "/run"
	must(t, os.RemoveAll(dir))
	fill(t, dir)
	r := opened(t, dir, durable())
	defer r.Close()
	_, err := r.ReadDir(".") // the runtime opens its poller
	must(t, err)
	old, open := f.Files(), descriptors(t)
	f.Set(x.rule())
	receipt, err := faultVerbs[verb].run(r)
	log := f.Log()
	f.Set(nil)
	if x.hit.Op == "" {
		if err != nil && !(bare && errors.Is(err, caproot.ErrUnsupported)) || x.at == 1 {
			t.Errorf("%s without a fault: %v", verb, err)
		}
		return false
	}
	row.runs++
	what := fmt.Sprintf("%s, %v at %q (%d, after: %v)", verb, x.errno, x.hit, x.at, x.after)
	judge(t, what, faultVerbs[verb], old, f.Files(), receipt, err, x, row)
	if n := descriptors(t); n != open {
		t.Errorf("%s: %d descriptors, had %d", what, n, open)
	}
	if left := stages(f.Files()); len(left) > 0 {
		row.left++
		sweep(t, r, what, left)
		// A stage that is the second name of what was published stays, and without
		// locks nothing tells a dead stage.
		if now := stages(f.Files()); len(now) > 0 && !bare && x.hit.Op != "unlink" {
			t.Errorf("%s: no sweep removes %q\n%q", what, now, log)
		}
	}
	return true
}

// sweep sweeps the directories of the stages.
func sweep(t *testing.T, r *caproot.Root, what string, left []string) {
	t.Helper()
	for _, name := range left {
		dir := path.Dir(strings.TrimPrefix(name, "run/"))
		if _, err := r.Sweep(dir); err != nil {
			t.Errorf("%s: sweep of %s: %v", what, dir, err)
		}
	}
}

// judge compares what is there with what may be there.
func judge(t *testing.T, what string, v faultVerb, old, now map[string]string, receipt identity.Receipt, err error, x *fault, row *tally) {
	t.Helper()
	changed := 0
	for name, held := range merged(old, now) {
		short := strings.TrimPrefix(name, "run/")
		wanted, may := v.names[short]
		switch got := now[name]; {
		case strings.Contains(name, ".caproot-stage-"):
		case may && got == wanted:
			changed++
		case got != held:
			t.Errorf("%s: %s holds %q", what, short, got)
		}
	}
	switch {
	case err == nil:
		row.succeeded++
		if changed != len(v.names) {
			t.Errorf("%s: success, but %d of %d names changed", what, changed, len(v.names))
		}
		return
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		t.Errorf("%s: %v looks like absence or presence", what, err)
	case !errors.Is(err, x.errno) && caproot.Code(err) == "unknown":
		t.Errorf("%s: %v is not typed", what, err)
	}
	if receipt.Published != identity.Unpublished {
		row.unknown++
	} else if row.refused++; changed > 0 && !v.steps {
		t.Errorf("%s: %v, but published", what, err)
	}
}

// merged has all names, with what they held before.
func merged(old, now map[string]string) map[string]string {
	all := map[string]string{}
	for name := range now {
		all[name] = ""
	}
	maps.Copy(all, old)
	return all
}
