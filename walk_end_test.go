package caproot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"testing"
)

func TestWalkCancelAndBreak(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for i := range 100 {
			must(t, os.MkdirAll(fmt.Sprintf("%s/root/dir/%d/sub", base, i), 0o755))
		}
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cause := errors.New("enough")
			var last error
			for _, err := range r.Walk(ctx, ".", o) {
				cancel(cause)
				last = err
			}
			want(t, "canceled", last, cause)
			for range r.Walk(t.Context(), ".", o) {
				break
			}
			func() {
				defer func() { recover() }()
				for range r.Walk(t.Context(), ".", o) {
					panic("body")
				}
			}()
		})
	})
}

func TestEntries(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		var names []string
		for e, err := range r.Entries(t.Context(), ".") {
			must(t, err)
			names = append(names, e.Name())
		}
		slices.Sort(names)
		wantPaths(t, "entries", names, withoutLinks(t, []string{"abs", "dir", "f", "in", "lk", "out"})...)
	})
}

func TestGlob(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for _, dir := range []string{"a/b/c", "a/x", "b"} {
			must(t, os.MkdirAll(base+"/root/"+dir, 0o755))
			must(t, os.WriteFile(base+"/root/"+dir+"/1.go", nil, 0o644))
			must(t, os.WriteFile(base+"/root/"+dir+"/2.txt", nil, 0o644))
		}
		for _, pattern := range []string{"*", "a", "a/*", "a/*/*.go", "*/x/?.go", "b/[12].*", "missing", "missing/*", "f/*", "in/*", "a/b/c/1.go", "*/*/*/*"} {
			want, err := fs.Glob(os.DirFS(base+"/root"), pattern)
			must(t, err)
			got, err := r.Glob(pattern)
			must(t, err)
			wantPaths(t, pattern, got, want...)
		}
		for pattern, paths := range map[string][]string{
			"**/1.go": {"a/b/c/1.go", "a/x/1.go", "b/1.go"}, "a/**/c": {"a/b/c"}, "a/**/**/x/*.txt": {"a/x/2.txt"}, "**/b/**": {"a/b/c", "a/b/c/1.go", "a/b/c/2.txt", "b/1.go", "b/2.txt"},
			"a/x/**": {"a/x/1.go", "a/x/2.txt"},
			"*/":     {"a", "b", "dir"}, "*/x/": {"a/x"}, "a//*/./1.go": {"a/x/1.go"}, "**/": {"a", "a/b", "a/b/c", "a/x", "b", "dir"}, "*//*.go/": nil, "f*/.": nil,
		} {
			got, err := r.Glob(pattern)
			must(t, err)
			wantPaths(t, pattern, got, paths...)
		}
		_, err := r.Glob("a/[")
		want(t, "malformed", err, path.ErrBadPattern)
		if makesLinks(t) {
			_, err = r.Glob("out/*")
			want(t, "outside", err, ErrEscape)
		}
	})
}

// fs.SkipDir for a denied directory skips nothing else.
func TestWalkDirSkipsDenied(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, dir := range []string{"a", "b/x", "c"} {
			must(t, os.MkdirAll(base+"/root/w/"+dir, 0o755))
		}
		g, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{"w/b"}})
		must(t, err)
		defer g.Close()
		var calls []string
		must(t, g.WalkDir("w", func(path string, _ fs.DirEntry, err error) error {
			if calls = append(calls, path); path == "w/b" {
				return fs.SkipDir
			}
			return err
		}))
		wantPaths(t, "calls", calls, "w", "w/a", "w/b", "w/c")
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.Filter = func(e Entry) WalkStep {
				if e.Name() == "b" {
					return WalkSkipTree
				}
				return WalkTake
			}
			wantPaths(t, "filter", walked(t, g, "w", o), "w/a", "w/c")
		})
	})
}

// case 174: MaxDepth is about what is beyond it; an empty directory there has
// nothing that is.
func TestWalkDepthOfEmptyDirectory(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/w/a/empty", 0o755))
		must(t, os.Mkdir(base+"/root/w/b", 0o755))
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			for _, o.Sorted = range []bool{false, true} {
				o.MaxDepth, o.MaxEntries = 2, 3
				wantPaths(t, "at the limit", walked(t, r, "w", o), "w/a", "w/a/empty", "w/b")
				o.Truncate = true
				wantPaths(t, "not looked into", walked(t, r, "w", o), "w/a", "w/a/empty (cut)", "w/b")
				o.Truncate, o.MaxDepth, o.InlineErrors = false, 1, true
				if got := walked(t, r, "w", o); !slices.Contains(got, "w/a: too-large") {
					t.Errorf("beyond the limit: %q", got)
				}
			}
			for depth, fits := range map[int]bool{1: false, 2: true} {
				report, err := r.CopyTree(t.Context(), "copy", r, "w", TreeCopyOptions{MaxDepth: depth, Workers: o.Workers})
				if want := map[bool]error{false: ErrTooLarge}[fits]; !errors.Is(err, want) || fits && report.Dirs != 3 {
					t.Errorf("copy to depth %d: %+v, %v", depth, report, err)
				}
				must(t, r.RemoveAll("copy"))
			}
			_, err := r.RemoveTree(t.Context(), "w", TreeLimits{MaxDepth: 1, Workers: o.Workers})
			want(t, "RemoveTree", err, ErrTooLarge)
			must(t, os.MkdirAll(base+"/root/w/a/empty", 0o755))
			must(t, os.MkdirAll(base+"/root/w/b", 0o755))
		})
	})
}

// A directory at MaxDepth that cannot be opened is the error that it is anywhere.
func TestWalkDepthOfShutDirectory(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/w/a/shut/x", 0o755))
		r.beneath = nil
		hook(r, answers(map[string]error{"open shut": fs.ErrPermission}))
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.MaxDepth, o.InlineErrors = 2, true
			wantPaths(t, "walk", walked(t, r, "w", o), "w/a", "w/a/shut", "w/a/shut: permission")
		})
	})
}
