package caproot

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

// What a limit or a grant keeps a walk from entering is seen, whatever the filter
// says, unless it wants nothing of the tree.
func TestWalkFilterHidesNoCut(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/dir/sub", 0o755))
		must(t, os.MkdirAll(base+"/root/private/sub", 0o755))
		sub, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{"private"}})
		must(t, err)
		defer sub.Close()
		must(t, os.Rename(base+"/root/private", base+"/root/moved")) // denied still
		for step, want := range map[WalkStep][]string{WalkSkip: {"dir", "moved"}, WalkSkipTree: nil} {
			eachWorkers(t, func(t *testing.T, o WalkOptions) {
				o.MaxDepth, o.Truncate = 1, true
				o.Filter = func(e Entry) WalkStep {
					if e.IsDir() {
						return step
					}
					return WalkLeaf
				}
				var cut []string
				for e, err := range sub.Walk(t.Context(), ".", o) {
					must(t, err)
					if e.Truncated() {
						cut = append(cut, e.Path())
					}
				}
				slices.Sort(cut)
				wantPaths(t, "cut", cut, want...)
			})
		}
		// A copy that may not have it all is none.
		to := twin(t, r, base)
		defer to.Close()
		_, err = to.CopyTree(t.Context(), "copy", sub, ".", TreeCopyOptions{Symlinks: LinksSkip})
		want(t, "CopyTree", err, ErrPolicy)
		if exists(base + "/twin/copy/moved") {
			t.Error("made a directory for what is denied")
		}
	})
}

// Glob passes over what a grant denies, and says so when it is asked for it by name.
func TestGlobOfDenied(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		hidden(t, base)
		sub, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{".git"}})
		must(t, err)
		defer sub.Close()
		got, err := sub.Glob("**")
		must(t, err)
		all, err := r.Glob("**")
		must(t, err)
		inside := slices.ContainsFunc(got, func(name string) bool { return len(name) > 5 && name[:5] == ".git/" })
		if inside || !slices.Contains(got, ".git") || len(all) <= len(got) {
			t.Errorf("%q", got)
		}
		_, err = sub.Glob(".git/*")
		want(t, "by name", err, ErrPolicy)
	})
}

// finishes runs a call that must end, if not by a return.
func finishes(t *testing.T, what string, call func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		call()
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// A callback that ends the goroutine of a worker ends the call with an error.
func TestGoexitInWorker(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		grow := func() { growBranches(t, base+"/root/tree", 4) }
		grow()
		var mu sync.Mutex
		calls, at := 0, 0
		exit := func() {
			mu.Lock()
			calls++
			now := calls == at
			mu.Unlock()
			if now {
				runtime.Goexit()
			}
		}
		sub, err := r.Grant(".", Grant{Policy: Workspace(), Before: func(m Mutation) error {
			if m.Verb == "removetree" {
				exit()
			}
			return nil
		}})
		must(t, err)
		for _, n := range []int{1, 2, 5, 20} {
			calls, at = 0, n
			var last error
			finishes(t, "Walk", func() {
				for _, err := range sub.Walk(t.Context(), "tree", WalkOptions{Workers: 4, InlineErrors: true, Filter: func(Entry) WalkStep { exit(); return WalkTake }}) {
					last = err
				}
			})
			want(t, "Walk", last, errExited)

			calls = 0
			last = nil
			back := false
			finishes(t, "RemoveTree", func() {
				_, last = sub.RemoveTree(t.Context(), "tree", TreeLimits{Workers: 4})
				back = true
			})
			// The goroutine of the caller is one of those that remove.
			if back {
				want(t, "RemoveTree", last, errExited)
			}
			if !exists(base + "/root/tree") {
				t.Error("removed all")
			}
			must(t, os.RemoveAll(base+"/root/tree"))
			grow()

			calls = 0
			finishes(t, "CopyTree", func() {
				_, last = sub.CopyTree(t.Context(), "copy", r, "tree", TreeCopyOptions{Workers: 4, Copied: func(receipt identity.Receipt) {
					if receipt.Mode.IsRegular() && receipt.Op != "mkdir" {
						exit()
					}
				}})
			})
			want(t, "CopyTree", last, errExited)
			must(t, r.RemoveAll("copy"))
		}
		finishes(t, "Close", func() { sub.Close() })
	})
}
