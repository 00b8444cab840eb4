package caproot

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutRights runs test as a user to whom modes mean something, on this thread.
func withoutRights(t *testing.T, test func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		test()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	must(t, unix.Setfsuid(nobody))
	defer unix.Setfsuid(0)
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != nobody {
		t.Skipf("no other file system user: %d, %v", now, err)
	}
	test()
}

// answering is a WalkDirFunc that writes its calls down and answers the n-th so.
func answering(calls *[]string, n int, answer error) fs.WalkDirFunc {
	return func(path string, d fs.DirEntry, err error) error {
		if *calls = append(*calls, fmt.Sprint(path, " ", d.IsDir(), " ", err != nil)); len(*calls) == n {
			return answer
		}
		return nil
	}
}

// WalkDir answers fs.SkipDir and fs.SkipAll as fs.WalkDir does, whichever call
// they answer; of a directory that cannot be opened too.
func TestWalkDirSkipsAsTheStandardLibrary(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.Chmod(filepath.Dir(base), 0o755))
		for _, dir := range []string{"a/x", "a/y", "b/x", "c/shut", "d"} {
			must(t, os.MkdirAll(base+"/root/w/"+dir, 0o755))
			must(t, os.WriteFile(base+"/root/w/"+dir+"/f", nil, 0o644))
			must(t, os.WriteFile(base+"/root/w/"+dir+"/z", nil, 0o644))
		}
		for _, shut := range []string{"b", "c/shut"} {
			must(t, os.Chmod(base+"/root/w/"+shut, 0))
			t.Cleanup(func() { os.Chmod(base+"/root/w/"+shut, 0o755) })
		}
		withoutRights(t, func() {
			var all []string
			must(t, fs.WalkDir(os.DirFS(base+"/root"), "w", answering(&all, 0, nil)))
			if !slices.Contains(all, "w/b true true") {
				t.Fatalf("nothing is shut: %q", all)
			}
			for n := range len(all) + 1 {
				for _, answer := range []error{fs.SkipDir, fs.SkipAll, fs.ErrInvalid} {
					var theirs, ours []string
					terr := fs.WalkDir(os.DirFS(base+"/root"), "w", answering(&theirs, n, answer))
					oerr := r.WalkDir("w", answering(&ours, n, answer))
					if !slices.Equal(ours, theirs) || oerr != terr {
						t.Errorf("%v to call %d of %q:\n%q, %v\nwant %q, %v", answer, n, all, ours, oerr, theirs, terr)
					}
				}
			}
		})
	})
}

// case 173: fs.SkipDir for a mount point that is not entered skips nothing else.
func TestWalkDirSkipsMountPoint(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, dir := range []string{"a", "b", "c"} {
			must(t, os.MkdirAll(base+"/root/w/"+dir, 0o755))
		}
		bind(t, base+"/outside", base+"/root/w/b")
		var calls []string
		must(t, r.WalkDir("w", func(path string, _ fs.DirEntry, err error) error {
			if calls = append(calls, path); err != nil {
				want(t, "entering "+path, err, ErrMount)
				return fs.SkipDir
			}
			return nil
		}))
		wantPaths(t, "calls", calls, "w", "w/a", "w/b", "w/b", "w/c")
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.InlineErrors = true
			wantPaths(t, "walk", walked(t, r, "w", o), "w/a", "w/b", "w/b: mount", "w/c")
			o.Filter = func(e Entry) WalkStep {
				if e.Name() == "b" {
					return WalkSkipTree
				}
				return WalkTake
			}
			wantPaths(t, "filter", walked(t, r, "w", o), "w/a", "w/c")
		})
	})
}

// partFS lists the directory w/b in part and then fails, as a file system may.
type partFS struct{ fs.FS }

func (p partFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(p.FS, name)
	if name == "w/b" {
		return entries[:2], syscall.EIO
	}
	return entries, err
}

// case 170: a listing that fails in its middle is told before what it gave, and
// fs.SkipDir then skips that.
func TestWalkDirOfPartOfAListing(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for _, dir := range []string{"a", "b/1", "b/2", "b/3", "c"} {
			must(t, os.MkdirAll(base+"/root/w/"+dir, 0o755))
		}
		var part syscall.Stat_t
		must(t, syscall.Stat(base+"/root/w/b", &part))
		real := r.sys
		r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
			entries, err := real.list(h, scratch)
			if st, serr := real.stat(h, "", false); serr == nil && st.ino == part.Ino {
				slices.SortFunc(entries, func(a, b direntry) int { return int(a.name[0]) - int(b.name[0]) })
				return entries[:2], syscall.EIO
			}
			return entries, err
		}}
		defer func() { r.sys = real }()
		for n := range 8 {
			var theirs, ours []string
			terr := fs.WalkDir(partFS{os.DirFS(base + "/root")}, "w", answering(&theirs, n, fs.SkipDir))
			oerr := r.WalkDir("w", answering(&ours, n, fs.SkipDir))
			if !slices.Equal(ours, theirs) || oerr != terr {
				t.Errorf("SkipDir to call %d:\n%q, %v\nwant %q, %v", n, ours, oerr, theirs, terr)
			}
		}
	})
}
