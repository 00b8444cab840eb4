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
