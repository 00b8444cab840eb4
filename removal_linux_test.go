package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles lets this process open n descriptors more than it has.
func limitFiles(t *testing.T, n int) {
	limit := unix.Rlimit{Cur: uint64(openFDs(t) + n), Max: uint64(openFDs(t) + n)}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}

// case 168: the depth of a tree costs neither stack nor descriptors.
func TestDeepTreeWithFewDescriptors(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	limitFiles(t, maxHeld+12)
	for _, resolver := range []string{"kernel", "walker"} {
		r, err := Open(shm(t), Workspace())
		must(t, err)
		defer r.Close()
		if resolver == "walker" {
			r.beneath = nil
		}
		deep := strings.Repeat("d/", 20000)
		must(t, r.MkdirAll(deep, 0o755))
		must(t, verbs(r)["Put"](deep+"f"))
		must(t, verbs(r)["ReadFile"](deep+"f"))
		must(t, verbs(r)["Stat"](deep+strings.Repeat("../", 200)))
		must(t, r.RemoveAll("d"))
		if ok, err := r.Exists("d"); ok || err != nil {
			t.Errorf("%s: still there: %v, %v", resolver, ok, err)
		}
	}
}

// case 177: a full table of descriptors is EMFILE, never absence, contention or
// a refusal; nothing is left behind, and the next call works.
func TestOutOfDescriptors(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	limitFiles(t, 20)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		before := tree(t, base+"/root")
		for free := range 6 {
			for verb, call := range verbs(r) {
				switch verb {
				case "Check", "RemoveIf": // their answer to a receipt of nothing is a change
					continue
				case "Batch", "CopyFS", "CopyTreeFrom", "CopyTreeTo": // several calls; the first may succeed
					continue
				}
				for _, name := range []string{"dir/file", "in/file", "dir/missing", "in/../f"} {
					var fill []*os.File
					for {
						f, err := os.Open("/dev/null")
						if err != nil {
							break
						}
						fill = append(fill, f)
					}
					for range free {
						fill[len(fill)-1].Close()
						fill = fill[:len(fill)-1]
					}
					err := call(name)
					for _, f := range fill {
						f.Close()
					}
					if errors.Is(err, syscall.EMFILE) {
						noStage(t, base)
						// A copy of a tree that fails leaves what it made; it says so.
						if after := tree(t, base+"/root"); after != before && !strings.HasPrefix(verb, "CopyTree") && verb != "CopyFS" {
							t.Errorf("%s(%q) failed with %v and left\n%s", verb, name, err, after)
						}
					} else if free == 0 && err == nil {
						t.Errorf("%s(%q) worked without a descriptor: %v", verb, name, err)
					} else if errors.Is(err, ErrChanged) || errors.Is(err, ErrUnstable) || errors.Is(err, ErrEscape) {
						t.Errorf("%s(%q) with %d descriptors: %v", verb, name, free, err)
					}
					reset(t, base+"/root")
				}
			}
		}
	})
}

// reset makes the part of eachResolver's tree anew that verbs change.
func reset(t *testing.T, root string) {
	for _, dir := range []string{root, root + "/dir"} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if e.Name() != "dir" && !(dir == root && e.Type() == fs.ModeSymlink) {
				must(t, os.RemoveAll(dir+"/"+e.Name()))
			}
		}
	}
	must(t, os.WriteFile(root+"/dir/file", []byte("file"), 0o644))
	must(t, os.WriteFile(root+"/f", []byte("content"), 0o644))
}

// forgetful passes entries over after something was removed, as some file
// systems do while a listing goes on.
type forgetful struct {
	system
	removed bool
	skipped int
}

func (f *forgetful) remove(d handle, name string, isDir bool) error {
	f.removed = true
	return f.system.remove(d, name, isDir)
}

func (f *forgetful) list(d handle, scratch []byte) ([]direntry, error) {
	entries, err := f.system.list(d, scratch)
	if f.removed && len(entries) > 1 {
		f.skipped += len(entries) / 2
		entries = entries[:len(entries)-len(entries)/2]
	}
	return entries, err
}

// case 169: a removal lists again until nothing is left.
func TestRemovalRescans(t *testing.T) {
	base := shm(t)
	must(t, os.MkdirAll(base+"/many/sub", 0o755))
	for i := range 50000 {
		fd, err := unix.Open(fmt.Sprintf("%s/many/%d", base, i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		must(t, err)
		unix.Close(fd)
	}
	r, err := Open(base, Workspace())
	must(t, err)
	defer r.Close()
	f := &forgetful{system: r.sys}
	r.sys = f
	must(t, r.RemoveAll("many"))
	if f.skipped == 0 {
		t.Error("no entry was ever passed over")
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// unlistable answers err to the listing of every directory that holds a name.
type unlistable struct {
	system
	holds string
	err   error
}

func (u *unlistable) list(d handle, scratch []byte) ([]direntry, error) {
	if _, err := u.system.stat(d, u.holds, false); err == nil {
		return nil, u.err
	}
	return u.system.list(d, scratch)
}

// case 170: a directory that cannot be listed does not look empty.
func TestUnreadableIsNotEmpty(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.EIO, unix.ESTALE} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			must(t, os.MkdirAll(base+"/root/tree/beside", 0o755))
			must(t, os.Rename(base+"/root/dir", base+"/root/tree/dir"))
			r.sys = &unlistable{system: r.sys, holds: "file", err: errno}
			entries, err := r.ReadDir("tree/dir")
			if !errors.Is(err, errno) || len(entries) != 0 {
				t.Errorf("ReadDir: %v, %v", entries, err)
			}
			_, err = r.Sweep("tree/dir")
			want(t, "Sweep", err, errno)
			err = r.RemoveAll("tree")
			if !errors.Is(err, errno) || !strings.Contains(err.Error(), "dir") {
				t.Errorf("RemoveAll does not name what is left: %v", err)
			}
			if data, _ := os.ReadFile(base + "/root/tree/dir/file"); string(data) != "file" {
				t.Errorf("what could not be listed has %q", data)
			}
			if _, err := os.Stat(base + "/root/tree/beside"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the sibling: %v", err)
			}
		})
	}
}

// cases 170, 178: as a user whom the modes bind. What cannot be removed is
// reported, its siblings are removed all the same.
func TestRemovalWithoutPermission(t *testing.T) {
	if !asNobody(t) {
		return
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		top := base + "/root/top"
		for _, dir := range []string{"/fixed", "/fixed/sub", "/hidden", "/hidden/sub", "/plain/sub"} {
			must(t, os.MkdirAll(top+dir, 0o755))
			must(t, os.WriteFile(top+dir+"/file", nil, 0o644))
		}
		must(t, os.Chmod(top+"/fixed", 0o555))
		must(t, os.Chmod(top+"/hidden", 0))
		defer os.Chmod(top+"/fixed", 0o755)
		defer os.Chmod(top+"/hidden", 0o755)
		_, err := r.ReadDir("top/hidden")
		want(t, "ReadDir", err, fs.ErrPermission)
		err = r.RemoveAll("top")
		want(t, "RemoveAll", err, fs.ErrPermission)
		for _, left := range []string{"fixed/file", "fixed/sub", "hidden"} {
			if name := left[strings.LastIndexByte(left, '/')+1:]; !strings.Contains(err.Error(), name) {
				t.Errorf("%s is not named in %v", left, err)
			}
		}
		must(t, os.Chmod(top+"/hidden", 0o755))
		got := strings.Join(namesIn(t, top), " ")
		if got != "fixed fixed/file fixed/sub hidden hidden/file hidden/sub hidden/sub/file" {
			t.Errorf("left: %s", got)
		}
	})
}

// namesIn lists a tree without its top.
func namesIn(t *testing.T, dir string) (all []string) {
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// untyped lists without types, and cannot describe one name.
type untyped struct {
	system
	name string
	err  error
}

func (u *untyped) list(d handle, scratch []byte) ([]direntry, error) {
	entries, err := u.system.list(d, scratch)
	for i := range entries {
		entries[i].typed, entries[i].mode = false, fs.ModeIrregular
	}
	return entries, err
}

func (u *untyped) stat(d handle, name string, full bool) (status, error) {
	if name == u.name {
		return status{}, u.err
	}
	return u.system.stat(d, name, full)
}

// case 171: an entry that vanishes during a listing is passed over, one that
// cannot be described stays in the listing and says so itself.
func TestListingSurvivesOneEntry(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.ENOENT, unix.EACCES} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			u := &untyped{system: r.sys, name: "f", err: errno}
			r.sys = u
			entries, err := r.ReadDir(".")
			must(t, err)
			found := false
			for _, e := range entries {
				_, err := e.Info()
				if e.Name() == "f" {
					found = true
					want(t, "Info of the entry", err, errno)
					continue
				}
				must(t, err)
				if e.Type() == fs.ModeIrregular {
					t.Errorf("%s has no type", e.Name())
				}
			}
			if found != (errno == unix.EACCES) || len(entries) < 5 {
				t.Errorf("%v: %v", errno, entries)
			}
		})
	}
}
