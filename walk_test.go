package caproot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// walked collects the paths of a walk, sorted; an error is "path: code".
func walked(t *testing.T, r *Root, name string, o WalkOptions) (paths []string) {
	t.Helper()
	for e, err := range r.Walk(t.Context(), name, o) {
		path := e.Path()
		if err != nil {
			path += ": " + Code(err)
		}
		if e.Truncated() {
			path += " (cut)"
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func wantPaths(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// eachWorkers runs a test of Walk with one worker and with several.
func eachWorkers(t *testing.T, test func(t *testing.T, o WalkOptions)) {
	t.Helper()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers=%d", n), func(t *testing.T) { test(t, WalkOptions{Workers: n}) })
	}
}

func TestWalk(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/dir/a/b", 0o755))
		must(t, os.WriteFile(base+"/root/dir/a/b/c", []byte("c"), 0o644))
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			all := []string{"abs", "dir", "dir/a", "dir/a/b", "dir/a/b/c", "dir/file", "f", "in", "lk", "out"}
			wantPaths(t, "all", walked(t, r, ".", o), withoutLinks(t, all)...)
			via := linked(t)
			wantPaths(t, "through a link", walked(t, r, via+"/a/", o), via+"/a/b", via+"/a/b/c")
			wantPaths(t, "a file", walked(t, r, "f", o), "f: not-dir")
			if makesLinks(t) {
				wantPaths(t, "outside", walked(t, r, "out", o), "out: escape")
			}
			wantPaths(t, "missing", walked(t, r, "missing", o), "missing: not-exist")

			o.MaxDepth, o.Truncate = 1, true
			wantPaths(t, "depth", walked(t, r, "dir", o), "dir/a (cut)", "dir/file")
			o.MaxDepth, o.Truncate = 2, false
			got := walked(t, r, "dir/a", o)
			wantPaths(t, "just deep enough", got, "dir/a/b", "dir/a/b/c")
			o.MaxDepth, o.InlineErrors = 1, true
			wantPaths(t, "too deep", walked(t, r, "dir/a", o), "dir/a/b", "dir/a/b: too-large")

			o = WalkOptions{Workers: o.Workers, Filter: func(e Entry) WalkStep {
				switch e.Name() {
				case "a":
					return WalkSkip
				case "b", "abs":
					return WalkSkipTree
				}
				return WalkTake
			}}
			wantPaths(t, "filter", walked(t, r, ".", o), withoutLinks(t, []string{"dir", "dir/file", "f", "in", "lk", "out"})...)
		})
	})
}

// case 174: limits of 0, 1 and the exact number.
func TestWalkBudget(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for i := range 5 {
			must(t, os.WriteFile(fmt.Sprintf("%s/root/dir/%d", base, i), nil, 0o644))
		}
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			for _, sorted := range []bool{false, true} {
				o.Sorted = sorted
				for limit, want := range map[int64]int{0: 6, 1: 1, 5: 5, 6: 6} {
					o.MaxEntries, o.Truncate = limit, false
					n, failed := 0, false
					for _, err := range r.Walk(t.Context(), "dir", o) {
						if err != nil {
							if failed = true; !errors.Is(err, ErrTooLarge) {
								t.Error(err)
							}
							continue
						}
						n++
					}
					if n != want || failed != (want < 6) {
						t.Errorf("limit %d: %d entries, failed %v", limit, n, failed)
					}
					o.Truncate = true
					if got := walked(t, r, "dir", o); slices.Contains(got, "dir (cut)") != (want < 6) {
						t.Errorf("limit %d: %q", limit, got)
					}
				}
			}
		})
	})
}

func TestWalkSortedIsWalkDir(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/a/b/c", 0o755))
		must(t, os.MkdirAll(base+"/root/a/z", 0o755))
		must(t, os.WriteFile(base+"/root/a/b/x", nil, 0o644))
		must(t, os.WriteFile(base+"/root/a.b", nil, 0o644))
		for _, skip := range []string{"", "a/b", "a/b/c", "a/b/x", "dir", "f"} {
			collect := func(into *[]string) fs.WalkDirFunc {
				return func(path string, d fs.DirEntry, err error) error {
					*into = append(*into, path+" "+d.Name()+" "+d.Type().String())
					if path == skip {
						return fs.SkipDir
					}
					return err
				}
			}
			var theirs, ours []string
			must(t, fs.WalkDir(os.DirFS(base+"/root"), ".", collect(&theirs)))
			must(t, r.WalkDir(".", collect(&ours)))
			wantPaths(t, "skip "+skip, ours, theirs...)
		}
		var sorted, ours []string
		for e, err := range r.Walk(t.Context(), ".", WalkOptions{Sorted: true, Workers: 4}) {
			must(t, err)
			sorted = append(sorted, e.Path())
		}
		must(t, r.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
			ours = append(ours, path)
			return err
		}))
		wantPaths(t, "sorted", sorted, ours[1:]...)
		n := 0
		must(t, r.WalkDir("a", func(path string, _ fs.DirEntry, err error) error {
			n++
			return fs.SkipAll
		}))
		if n != 1 {
			t.Errorf("SkipAll: %d calls", n)
		}
		want(t, "missing", r.WalkDir("missing", func(_ string, _ fs.DirEntry, err error) error { return err }), fs.ErrNotExist)
	})
}

// An entry is opened and described through the directory that listed it, and
// not at all once the walk is over.
func TestWalkEntryOpens(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		mkfifo(t, base+"/root/dir/fifo")
		symlink(t, "file", base+"/root/dir/link")
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			for _, o.Info = range []bool{false, true} {
				var kept []Entry
				for e, err := range r.Walk(t.Context(), "dir", o) {
					must(t, err)
					kept = append(kept, e)
					// The path leads outside now; the entry does not.
					must(t, os.Rename(base+"/root/dir", base+"/root/moved"))
					symlink(t, "../outside", base+"/root/dir")
					info, err := e.Info()
					must(t, err)
					f, err := e.Open()
					switch e.Name() {
					case "file":
						must(t, err)
						data, err := io.ReadAll(f)
						must(t, err)
						must(t, f.Close())
						if string(data) != "file" || info.Size() != 4 {
							t.Errorf("%q, %d bytes", data, info.Size())
						}
					case "fifo":
						want(t, "fifo", err, ErrSpecial)
					case "link":
						want(t, "link", err, ErrSymlink)
					}
					must(t, os.Remove(base+"/root/dir"))
					must(t, os.Rename(base+"/root/moved", base+"/root/dir"))
				}
				if len(kept) != 3 {
					t.Errorf("%d entries", len(kept))
				}
				_, err := kept[0].Open()
				want(t, "later", err, fs.ErrClosed)
			}
		})
	})
}

// case 15: a directory replaced after it was listed is not entered.
func TestWalkReplacedAfterListing(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/victim/sub", 0o755))
		for i := range 500 {
			must(t, os.Mkdir(fmt.Sprintf("%s/root/victim/%d", base, i), 0o755))
		}
		var changed int
		for e, err := range r.Walk(t.Context(), "victim", WalkOptions{InlineErrors: true}) {
			if errors.Is(err, ErrChanged) {
				changed++
			}
			if strings.Contains(e.Path(), "secret") {
				t.Errorf("left the root: %s", e.Path())
			}
			if err == nil && e.IsDir() {
				must(t, os.Remove(base+"/root/"+e.Path()))
				symlink(t, base+"/outside", base+"/root/"+e.Path())
			}
		}
		if changed != 501 {
			t.Errorf("%d of 501 replaced directories were noticed", changed)
		}
	})
}

// case 172: links to directories above, below and beside.
func TestWalkFollowsEachOnce(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/w/s/x", 0o755))
		must(t, os.MkdirAll(base+"/root/beside/deep", 0o755))
		for link, target := range map[string]string{"w/s/loop": "..", "w/s/up": "../..", "w/s/self": ".", "w/s/x/to": "../../../beside",
			"beside/back": "../w/s", "w/s/dangling": "gone", "w/s/file": "../../f"} {
			symlink(t, target, base+"/root/"+link)
		}
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.FollowLinks = true
			wantPaths(t, "each once", walked(t, r, "w/s", o), "w/s/dangling", "w/s/file", "w/s/loop", "w/s/self", "w/s/up", "w/s/x", "w/s/x/to",
				"w/s/x/to/back", "w/s/x/to/deep")
			symlink(t, "../../outside", base+"/root/w/out")
			o.InlineErrors = true
			got := walked(t, r, "w", o)
			if !slices.Contains(got, "w/out: escape") || !slices.Contains(got, "w/s/x/to/deep") {
				t.Errorf("%q", got)
			}
			must(t, os.Remove(base+"/root/w/out"))
		})
	})
}
