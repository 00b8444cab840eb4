package caproot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
			wantPaths(t, "all", walked(t, r, ".", o), all...)
			wantPaths(t, "through a link", walked(t, r, "in/a/", o), "in/a/b", "in/a/b/c")
			wantPaths(t, "a file", walked(t, r, "f", o), "f: not-dir")
			wantPaths(t, "outside", walked(t, r, "out", o), "out: escape")
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
			wantPaths(t, "filter", walked(t, r, ".", o), "dir", "dir/file", "f", "in", "lk", "out")
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
		must(t, syscall.Mkfifo(base+"/root/dir/fifo", 0o644))
		must(t, os.Symlink("file", base+"/root/dir/link"))
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			for _, o.Info = range []bool{false, true} {
				var kept []Entry
				for e, err := range r.Walk(t.Context(), "dir", o) {
					must(t, err)
					kept = append(kept, e)
					// The path leads outside now; the entry does not.
					must(t, os.Rename(base+"/root/dir", base+"/root/moved"))
					must(t, os.Symlink("../outside", base+"/root/dir"))
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
				must(t, os.Symlink(base+"/outside", base+"/root/"+e.Path()))
			}
		}
		if changed != 501 {
			t.Errorf("%d of 501 replaced directories were noticed", changed)
		}
	})
}

// listFault changes what listings answer.
type listFault struct {
	system
	list1 func(h handle, scratch []byte) ([]direntry, error)
}

func (l *listFault) list(h handle, scratch []byte) ([]direntry, error) { return l.list1(h, scratch) }

// cases 170, 171: a listing that fails is told, the rest is seen; an entry that
// vanishes is passed over.
func TestWalkFaults(t *testing.T) {
	for _, fault := range []error{unix.EIO, unix.ESTALE, unix.EACCES} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			must(t, os.MkdirAll(base+"/root/dir/bad/below", 0o755))
			must(t, os.MkdirAll(base+"/root/dir/good/below", 0o755))
			var bad syscall.Stat_t
			must(t, syscall.Stat(base+"/root/dir/bad", &bad))
			real := r.sys
			r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
				if st, err := real.stat(h, "", false); err == nil && st.ino == bad.Ino {
					return nil, fault
				}
				return real.list(h, scratch)
			}}
			defer func() { r.sys = real }()
			eachWorkers(t, func(t *testing.T, o WalkOptions) {
				o.InlineErrors = true
				wantPaths(t, "in line", walked(t, r, "dir", o), "dir/bad", "dir/bad: "+Code(fault), "dir/file", "dir/good", "dir/good/below")
				o.InlineErrors = false
				failed := 0
				for _, err := range r.Walk(t.Context(), "dir", o) {
					if err != nil {
						failed++
						want(t, "failing", err, fault)
					}
				}
				if failed != 1 {
					t.Errorf("%d errors", failed)
				}
			})
		})
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/dir/gone", 0o755))
		real := r.sys
		r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
			entries, err := real.list(h, scratch)
			os.Remove(base + "/root/dir/gone")
			os.Remove(base + "/root/dir/file")
			return entries, err
		}}
		defer func() { r.sys = real }()
		wantPaths(t, "vanished", walked(t, r, "dir", WalkOptions{Info: true}))
	})
}

// case 172: links to directories above, below and beside.
func TestWalkFollowsEachOnce(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/w/s/x", 0o755))
		must(t, os.MkdirAll(base+"/root/beside/deep", 0o755))
		for link, target := range map[string]string{"w/s/loop": "..", "w/s/up": "../..", "w/s/self": ".", "w/s/x/to": "../../../beside",
			"beside/back": "../w/s", "w/s/dangling": "gone", "w/s/file": "../../f"} {
			must(t, os.Symlink(target, base+"/root/"+link))
		}
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.FollowLinks = true
			wantPaths(t, "each once", walked(t, r, "w/s", o), "w/s/dangling", "w/s/file", "w/s/loop", "w/s/self", "w/s/up", "w/s/x", "w/s/x/to",
				"w/s/x/to/back", "w/s/x/to/deep")
			must(t, os.Symlink("../../outside", base+"/root/w/out"))
			o.InlineErrors = true
			got := walked(t, r, "w", o)
			if !slices.Contains(got, "w/out: escape") || !slices.Contains(got, "w/s/x/to/deep") {
				t.Errorf("%q", got)
			}
			must(t, os.Remove(base+"/root/w/out"))
		})
	})
}

// case 173: a mount point, of the root itself too, is entered only when asked.
func TestWalkMounts(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.Mkdir(base+"/root/dir/m", 0o755))
			if err := unix.Mount(base+"/outside", base+"/root/dir/m", "", unix.MS_BIND, ""); err != nil {
				t.Skipf("no bind mount: %v", err)
			}
			defer unix.Unmount(base+"/root/dir/m", unix.MNT_DETACH)
			eachWorkers(t, func(t *testing.T, o WalkOptions) {
				o.InlineErrors = true
				wantPaths(t, "stay", walked(t, r, "dir", o), "dir/file", "dir/m", "dir/m: mount")
				o.Mounts, o.Info = MountsCross, true
				if p.Mounts == MountsCross {
					wantPaths(t, "cross", walked(t, r, "dir", o), "dir/file", "dir/m", "dir/m/secret")
				} else {
					wantPaths(t, "refused", walked(t, r, "dir", o), "dir/file", "dir/m", "dir/m: mount")
				}
			})
		})
	}
}

// deepTree makes n directories below each other without a path for them.
func deepTree(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range n {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

// fewHandles lowers the limit of descriptors for one test.
func fewHandles(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
	t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
}

// case 168: 20,000 directories below each other, walked, and removed, with 64 descriptors.
func TestDeepTree(t *testing.T) {
	const depth = 20000
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/deep", 0o755))
		t.Cleanup(func() { r.RemoveAll("deep") })
		deepTree(t, base+"/root/deep", depth)
		must(t, os.WriteFile(base+"/root/deep/d/d/beside", nil, 0o644))
		fewHandles(t, 64)
		for _, o := range []WalkOptions{{}, {Sorted: true}} {
			n, last := 0, Entry{}
			for e, err := range r.Walk(t.Context(), "deep", o) {
				must(t, err)
				if n++; e.Depth() > last.depthOrZero() {
					last = e
				}
			}
			if n != depth+1 || last.Depth() != depth || len(last.Path()) != len("deep")+2*depth {
				t.Errorf("%d entries, the last at depth %d with a path of %d", n, last.Depth(), len(last.Path()))
			}
		}
		must(t, r.RemoveAll("deep"))
	})
}

func (e Entry) depthOrZero() int {
	if e.dir == nil {
		return 0
	}
	return e.Depth()
}

// A directory of a million entries is walked in flat memory.
func TestWalkMillion(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/many", 0o755))
		for i := range 1000 {
			must(t, os.WriteFile(fmt.Sprintf("%s/root/many/%d", base, i), nil, 0o644))
		}
		real, rounds := r.sys, 0
		r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
			entries, err := real.list(h, scratch)
			if len(entries) == 0 && rounds < 999 {
				rounds++
				real.seek(h, 0, 0)
				return real.list(h, scratch)
			}
			return entries, err
		}}
		defer func() { r.sys = real }()
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			rounds = 0
			runtime.GC()
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			n, most := 0, uint64(0)
			for _, err := range r.Walk(t.Context(), "many", o) {
				must(t, err)
				if n++; n%100000 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&now)
					most = max(most, now.HeapAlloc)
				}
			}
			if n != 1000000 || most > before.HeapAlloc+4<<20 {
				t.Errorf("%d entries, heap from %d to %d", n, before.HeapAlloc, most)
			}
		})
	})
}

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
		wantPaths(t, "entries", names, "abs", "dir", "f", "in", "lk", "out")
	})
}

// errSawOutside is what a verb of the table answers when it was led outside.
var errSawOutside = errors.New("saw what is outside")

// aboveVictim is the directory of the name that an attack acts on, for verbs
// that work on directories.
func aboveVictim(name string) string {
	for _, leaf := range []string{"/file", "/new"} {
		name = strings.TrimSuffix(name, leaf)
	}
	return name
}

// walkVerb walks the directory that an attack acts on and reads every file.
func walkVerb(r *Root, name string, o WalkOptions) error {
	for e, err := range r.Walk(context.Background(), aboveVictim(name), o) {
		if err != nil {
			return err
		}
		if e.Name() == "secret" {
			return errSawOutside
		}
		f, err := e.Open()
		if err != nil {
			continue
		}
		data, _ := io.ReadAll(f)
		f.Close()
		if string(data) == "secret" {
			return errSawOutside
		}
	}
	return nil
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
		_, err = r.Glob("out/*")
		want(t, "outside", err, ErrEscape)
	})
}
