package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// case 4: an entry of a listing describes the directory that was listed, or
// nothing, once the name leads elsewhere.
func TestEntriesOfReplacedDirectory(t *testing.T) {
	shared := Workspace()
	shared.Rights |= Share
	for _, p := range []Policy{shared, Compat()} {
		for _, place := range []string{"a link to outside", "another directory", "nothing"} {
			eachResolver(t, p, func(t *testing.T, r *Root, base string) {
				d := base + "/root/d"
				must(t, os.Mkdir(d, 0o755))
				must(t, os.WriteFile(d+"/secret", nil, 0o600))
				must(t, os.Symlink("nowhere", d+"/secret2"))
				entries, err := r.ReadDir("d")
				must(t, err)
				view, err := r.OpenView("d", 0, 0)
				must(t, err)
				defer view.Close()
				more, err := view.ReadDir(-1)
				must(t, err)
				file, err := r.Open("d")
				must(t, err)
				defer file.Close()
				theirs, err := file.ReadDir(-1)
				must(t, err)
				must(t, os.Rename(d, base+"/root/away"))
				switch place {
				case "a link to outside":
					must(t, os.Symlink("../outside", d))
				case "another directory":
					must(t, os.Mkdir(d, 0o755))
					must(t, os.WriteFile(d+"/secret", []byte("other"), 0o644))
				}
				for _, e := range append(entries, more...) {
					if info, err := e.Info(); err == nil {
						t.Errorf("%s: Info of %s: %v, %d bytes", place, e.Name(), info.Mode(), info.Size())
					}
				}
				for _, e := range theirs {
					if info, err := e.Info(); err == nil && info.Size() == int64(len("secret")) {
						t.Errorf("%s: Info of %s by os: %v, %d bytes", place, e.Name(), info.Mode(), info.Size())
					}
				}
			})
		}
	}
}

// cases 6, 195: containment is by handle. A root whose path has a linked
// ancestor is like any other, and an absolute link into the root is an escape:
// no prefix of texts is ever compared.
func TestRootBelowLink(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.Symlink(base, base+"/alias"))
			linked, err := Open(base+"/alias/root", p)
			must(t, err)
			defer linked.Close()
			linked.sys, linked.beneath = r.sys, r.beneath
			for i, target := range []string{base + "/root/dir", base + "/alias/root/dir", base + "/root/f"} {
				must(t, os.Symlink(target, fmt.Sprintf("%s/root/abs%d", base, i)))
			}
			for _, root := range []*Root{r, linked} {
				if data, err := root.ReadFile("in/file"); string(data) != "file" {
					t.Errorf("%s: %q, %v", root.Name(), data, err)
				}
				for _, name := range []string{"abs0/file", "abs1/file", "abs2", "abs0"} {
					want(t, root.Name()+": "+name, verbs(root)["ReadFile"](name), ErrEscape)
					if err := verbs(root)["Chtimes"](name); !errors.Is(err, ErrEscape) && !errors.Is(err, ErrSymlink) {
						t.Errorf("%s: Chtimes(%s): %v", root.Name(), name, err)
					}
				}
			}
		})
	}
}

// case 7: the path of a root is the caller's, so links in it are followed once,
// when it is opened. Name, handle and identity agree; what the path leads to
// later changes nothing, unless the policy binds to the path.
func TestRootOpenedByLink(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"one", "two"} {
		must(t, os.Mkdir(base+"/"+dir, 0o755))
		must(t, os.WriteFile(base+"/"+dir+"/name", []byte(dir), 0o644))
	}
	must(t, os.Symlink(base, base+"/p"))
	for _, path := range []string{base + "/rl", base + "/p/rl"} {
		must(t, os.Symlink("one", base+"/rl"))
		r, err := Open(path, Workspace())
		must(t, err)
		defer r.Close()
		bound := Workspace()
		bound.Bind = BindPath
		b, err := Open(path, bound)
		must(t, err)
		defer b.Close()
		must(t, os.Remove(base+"/rl"))
		must(t, os.Symlink("two", base+"/rl"))
		if data, err := r.ReadFile("name"); string(data) != "one" || r.Name() != path {
			t.Errorf("%s: %q, %v", r.Name(), data, err)
		}
		receipt, err := r.Receipt("name")
		must(t, err)
		other, err := Open(base+"/one", Workspace())
		must(t, err)
		defer other.Close()
		must(t, other.Check(receipt))
		for verb, call := range verbs(b) {
			if err := call("name"); !errors.Is(err, ErrChanged) {
				t.Errorf("%s of a root bound to its path: %v", verb, err)
			}
		}
		must(t, os.Remove(base+"/rl"))
	}
}

// case 9: a policy without links refuses an innocent relative one, at the end
// and on the way, by the code of a link; an absolute one has the code of an escape.
func TestLinksRefused(t *testing.T) {
	for _, p := range []Policy{Extract(), relaxed(Policy{Rights: AllRights, Hardlinks: HardlinksAllow, Modes: allModes})} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			for verb, call := range verbs(r) {
				for _, name := range []string{"in/file", "in/new", "in/../f"} {
					if err := call(name); !errors.Is(err, ErrSymlink) && !errors.Is(err, ErrPolicy) {
						t.Errorf("%s(%q): %v", verb, name, err)
					}
				}
				for _, name := range []string{"abs/secret", "abs/new"} {
					if verb == "WalkDir" {
						continue // looks at each directory of the path by itself
					}
					if err := call(name); !errors.Is(err, ErrEscape) && !errors.Is(err, ErrPolicy) {
						t.Errorf("%s(%q): %v", verb, name, err)
					}
				}
				if leafVerb(verb) {
					continue
				}
				if err := call("lk"); !errors.Is(err, ErrSymlink) && !errors.Is(err, ErrPolicy) {
					t.Errorf("%s(lk): %v", verb, err)
				}
			}
		})
	}
}

// case 10: the walk trusts O_NOFOLLOW and O_DIRECTORY. This is that trust,
// checked on the kernel that the tests run on.
func TestKernelHonoursNoFollow(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"in", "out", "lk", "abs"} {
			if h, err := r.sys.openDir(r.dir, name); err == nil || !maybeLink(err) {
				r.sys.close(h)
				t.Errorf("openDir(%s): %v", name, err)
			}
			for _, how := range []openHow{forRead, forRead | directoryOnly, forWrite, forRead | nonBlocking, forWrite | creating, pathOnly | directoryOnly} {
				if h, err := r.sys.open(r.dir, name, how, 0o600); err == nil || !maybeLink(err) {
					r.sys.close(h)
					t.Errorf("open(%s, %b): %v", name, how, err)
				}
			}
			h, err := r.sys.open(r.dir, name, pathOnly, 0)
			must(t, err)
			st, err := r.sys.stat(h, "", true)
			must(t, err)
			must(t, r.sys.close(h))
			if !st.isLink() {
				t.Errorf("a handle on %s itself is %v", name, st.mode)
			}
		}
	})
}

// case 21: openat ignores flags that it does not know, so those of resolution
// must never get there: each flag has a meaning of its own to open(2).
func TestOpenFlagsAreKnown(t *testing.T) {
	const known = unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_PATH | unix.O_WRONLY | unix.O_RDWR | unix.O_APPEND | unix.O_CREAT | unix.O_EXCL |
		unix.O_TRUNC | unix.O_SYNC | unix.O_DIRECTORY | unix.O_NONBLOCK
	for how := openHow(0); how < followLeaf<<1; how++ {
		flags := openFlags(how)
		if flags&^known != 0 || flags&unix.O_CLOEXEC == 0 || flags&(unix.O_PATH|unix.O_NOCTTY) == 0 {
			t.Fatalf("%b opens with %#x", how, flags)
		}
	}
}

// case 12: makers of one deep path do not fail each other, in one process or
// in several; a file in the way still does.
func TestMkdirAllTogether(t *testing.T) {
	if dir := os.Getenv("CAPROOT_MKDIRALL"); os.Getenv(childOf) == t.Name() && dir != "" {
		r, err := Open(dir, Workspace())
		must(t, err)
		defer r.Close()
		makeTogether(t, r)
		return
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		makeTogether(t, r)
		want(t, "a file in the way", r.MkdirAll("f/x/y", 0o755), syscall.ENOTDIR)
		want(t, "a file at the end", r.MkdirAll("f", 0o755), syscall.ENOTDIR)
	})
	dir := t.TempDir()
	t.Setenv("CAPROOT_MKDIRALL", dir)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { inChild(t, &syscall.SysProcAttr{}) })
	}
	wg.Wait()
	if _, err := os.Stat(dir + "/r0" + strings.Repeat("/d", 30)); err != nil {
		t.Errorf("what the children made: %v", err)
	}
}

// makeTogether has 32 goroutines make the same paths.
func makeTogether(t *testing.T, r *Root) {
	for round := range 20 {
		path := fmt.Sprintf("r%d", round) + strings.Repeat("/d", 30)
		errs := make(chan error, 32)
		for range cap(errs) {
			go func() { errs <- r.MkdirAll(path, 0o755) }()
		}
		for range cap(errs) {
			must(t, <-errs)
		}
	}
}

// case 18: renames elsewhere make the kernel's resolution of ".." start over;
// no caller sees that.
func TestRenameStorm(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/storm/a", 0o755))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					os.Rename(base+"/storm/a", base+"/storm/b")
					os.Rename(base+"/storm/b", base+"/storm/a")
				}
			}
		})
		for i := range 20000 {
			if _, err := r.Stat("dir/../in/../dir/../f"); err != nil {
				t.Errorf("call %d: %v", i, err)
				break
			}
		}
		close(stop)
		wg.Wait()
	})
}

// case 36: a mode that comes from a Stat has type bits; they are no part of
// what is asked for.
func TestModeFromStat(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Chmod(base+"/root/f", 0o640))
		file, err := r.Stat("f")
		must(t, err)
		dir, err := r.Stat("dir")
		must(t, err)
		must(t, r.Chmod("dir", dir.Mode()))
		_, err = r.Put("g", nil, PutOptions{Mode: file.Mode()})
		must(t, err)
		_, err = r.Put("p/q", nil, PutOptions{Mode: dir.Mode()&0o600 | fs.ModeDir, Parents: true, ParentMode: dir.Mode()})
		must(t, err)
		must(t, r.Mkdir("made", dir.Mode()))
		for name, mode := range map[string]fs.FileMode{"g": 0o640, "p": 0o755 | fs.ModeDir, "p/q": 0o600, "made": 0o755 | fs.ModeDir} {
			st, err := os.Stat(base + "/root/" + name)
			must(t, err)
			if st.Mode() != mode {
				t.Errorf("%s has %v, want %v", name, st.Mode(), mode)
			}
		}
	})
}
