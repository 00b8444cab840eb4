package caproot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func eachRemover(t *testing.T, test func(t *testing.T, o TreeLimits)) {
	t.Helper()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers=%d", n), func(t *testing.T) { test(t, TreeLimits{Workers: n}) })
	}
}

// growBranches makes a tree of 1+n+n*n directories and n*n*n files under dir.
func growBranches(t *testing.T, dir string, n int) (entries int64) {
	t.Helper()
	for i := range n {
		for j := range n {
			sub := fmt.Sprintf("%s/%d/%d", dir, i, j)
			must(t, os.MkdirAll(sub, 0o755))
			for k := range n {
				must(t, os.WriteFile(fmt.Sprintf("%s/%d", sub, k), nil, 0o644))
			}
		}
	}
	return int64(1 + n + n*n + n*n*n)
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func TestRemoveTree(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			entries := growBranches(t, base+"/root/tree", 10)
			must(t, os.Symlink(base+"/outside", base+"/root/tree/3/link"))
			must(t, syscall.Mkfifo(base+"/root/tree/fifo", 0o644))
			report, err := r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
			if report.Removed != entries+2 || len(report.Left) != 0 {
				t.Errorf("%+v, want %d removed", report, entries+2)
			}
			gone(t, base+"/root/tree")
			_, err = r.RemoveTree(t.Context(), "tree", o)
			want(t, "absent", err, fs.ErrNotExist)
			_, err = r.RemoveTree(t.Context(), "missing/tree", o)
			want(t, "absent parent", err, fs.ErrNotExist)
			o.Force = true
			_, err = r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
			must(t, os.Symlink("dir", base+"/root/link"))
			_, err = r.RemoveTree(t.Context(), "link/", o)
			want(t, "link/", err, ErrSymlink)
			_, err = r.RemoveTree(t.Context(), "link", o)
			must(t, err)
			gone(t, base+"/root/link")
			if _, err := os.Stat(base + "/root/dir/file"); err != nil {
				t.Error(err)
			}
		})
	})
}

// case 174: budgets are exact, and nothing more is removed once they are spent.
func TestRemoveTreeBudgets(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			for _, limit := range []int64{1, 2, 258, 259, 0} {
				entries := growBranches(t, base+"/root/tree", 6)
				o.MaxEntries = limit
				report, err := r.RemoveTree(t.Context(), "tree", o)
				if limit != 0 && limit < entries {
					want(t, fmt.Sprint("limit ", limit), err, ErrTooLarge)
					if report.Removed != limit {
						t.Errorf("limit %d: %d removed", limit, report.Removed)
					}
				} else if err != nil || report.Removed != entries {
					t.Errorf("limit %d: %+v, %v", limit, report, err)
				}
				must(t, os.RemoveAll(base+"/root/tree"))
			}
			for depth, fits := range map[int]bool{1: false, 64: false, 65: true, 0: true} {
				must(t, os.MkdirAll(base+"/root/tree"+strings.Repeat("/d", 65), 0o755))
				_, err := r.RemoveTree(t.Context(), "tree", TreeLimits{MaxDepth: depth, Workers: o.Workers})
				if fits {
					must(t, err)
				} else {
					want(t, fmt.Sprint("depth ", depth), err, ErrTooLarge)
					if _, err := os.Stat(base + "/root/tree" + strings.Repeat("/d", 65)); err != nil {
						t.Errorf("depth %d: removed before the refusal: %v", depth, err)
					}
				}
			}
			must(t, os.RemoveAll(base+"/root/tree"))
		})
	})
}

// case 169: a listing that passes entries over while others are removed.
func TestRemoveTreeListsAgain(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/many", 0o755))
		for i := range 50000 {
			must(t, syscall.Mknod(fmt.Sprintf("%s/root/many/%d", base, i), syscall.S_IFREG|0o644, 0))
		}
		real := r.sys
		r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
			entries, err := real.list(h, scratch)
			if len(entries) > 1 {
				entries = entries[:len(entries)/2]
			}
			return entries, err
		}}
		defer func() { r.sys = real }()
		report, err := r.RemoveTree(t.Context(), "many", TreeLimits{})
		must(t, err)
		if report.Removed != 50001 {
			t.Errorf("%d removed", report.Removed)
		}
	})
}

// removeFault runs before each removal and may answer it.
type removeFault struct {
	system
	before func(name string, isDir bool) error
}

func (f *removeFault) remove(dir handle, name string, isDir bool) error {
	if err := f.before(name, isDir); err != nil {
		return err
	}
	return f.system.remove(dir, name, isDir)
}

// cases 170, 178: what cannot be removed is told, with everything else gone.
func TestRemoveTreeReportsWhatIsLeft(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			entries := growBranches(t, base+"/root/tree", 5)
			for i := range 300 {
				must(t, os.WriteFile(fmt.Sprintf("%s/root/tree/4/stuck%03d", base, i), nil, 0o644))
			}
			real := r.sys
			r.sys = &removeFault{real, func(name string, _ bool) error {
				if strings.HasPrefix(name, "stuck") {
					return unix.EIO
				}
				return nil
			}}
			report, err := r.RemoveTree(t.Context(), "tree", o)
			r.sys = real
			want(t, "RemoveTree", err, unix.EIO)
			if report.Removed != entries-2 || len(report.Left) != maxReported || report.LeftMore != 200 || report.Left[0].Path != "tree/4/stuck"+report.Left[0].Path[len("tree/4/stuck"):] {
				t.Errorf("%d removed, %d left, %d more, first %+v", report.Removed, len(report.Left), report.LeftMore, report.Left[0])
			}
			names, err := os.ReadDir(base + "/root/tree")
			must(t, err)
			if len(names) != 1 {
				t.Errorf("left: %v", names)
			}
			report, err = r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
		})
	})
}

// case 178: without Force a directory that refuses keeps what is in it; with
// Force it is eased. Modes mean nothing to root.
func TestRemoveTreeModes(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root passes over modes; run as another user")
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			growBranches(t, base+"/root/tree", 3)
			must(t, os.Chmod(base+"/root/tree/0/1", 0o555))
			must(t, os.Chmod(base+"/root/tree/2", 0))
			must(t, os.MkdirAll(base+"/root/tree/empty", 0o755))
			must(t, os.Chmod(base+"/root/tree/empty", 0))
			report, err := r.RemoveTree(t.Context(), "tree", o)
			want(t, "refusing", err, fs.ErrPermission)
			if len(report.Left) != 4 {
				t.Errorf("left: %v", report.Left)
			}
			gone(t, base+"/root/tree/1")
			gone(t, base+"/root/tree/empty")
			o.Force = true
			_, err = r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
			gone(t, base+"/root/tree")
		})
	})
}

// case 173: a mount in the tree is not emptied.
func TestRemoveTreeMounts(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			eachRemover(t, func(t *testing.T, o TreeLimits) {
				must(t, os.MkdirAll(base+"/root/tree/a/m", 0o755))
				must(t, os.MkdirAll(base+"/root/tree/b/self", 0o755))
				must(t, os.WriteFile(base+"/root/tree/f", nil, 0o644))
				for target, source := range map[string]string{"a/m": base + "/outside", "b/self": base + "/root", "f": base + "/outside/secret"} {
					if err := unix.Mount(source, base+"/root/tree/"+target, "", unix.MS_BIND, ""); err != nil {
						t.Skipf("no bind mount: %v", err)
					}
				}
				report, err := r.RemoveTree(t.Context(), "tree", o)
				want(t, "RemoveTree", err, ErrMount)
				want(t, "RemoveAll", r.RemoveAll("tree"), ErrMount)
				if len(report.Left) != 3 {
					t.Errorf("left: %v", report.Left)
				}
				want(t, "of the mount itself", verbs(r)["RemoveTree"]("tree/a/m"), map[MountRule]error{MountsStay: ErrMount, MountsCross: ErrMount}[p.Mounts])
				for _, target := range []string{"a/m", "b/self", "f"} {
					must(t, unix.Unmount(base+"/root/tree/"+target, unix.MNT_DETACH))
				}
				if _, err := os.Stat(base + "/root/dir/file"); err != nil {
					t.Errorf("removed through the mount of the root itself: %v", err)
				}
				must(t, r.RemoveAll("tree"))
			})
		})
	}
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/tree/m", 0o755))
		if err := unix.Mount("tmpfs", base+"/root/tree/m", "tmpfs", 0, "size=64k"); err != nil {
			t.Skipf("no mount: %v", err)
		}
		defer unix.Unmount(base+"/root/tree/m", unix.MNT_DETACH)
		must(t, os.WriteFile(base+"/root/tree/m/f", nil, 0o644))
		report, err := r.RemoveTree(t.Context(), "tree", TreeLimits{Mounts: MountsCross})
		want(t, "told to cross", err, unix.EBUSY)
		gone(t, base+"/root/tree/m/f")
		if report.Removed != 1 || len(report.Left) != 1 || report.Left[0].Path != "tree/m" {
			t.Errorf("%+v", report)
		}
	})
}

// A directory is removed only as the one that was emptied. case 165.
func TestRemoveTreeReplaced(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			must(t, os.MkdirAll(base+"/root/tree/sub", 0o755))
			must(t, os.WriteFile(base+"/root/tree/sub/file", nil, 0o644))
			real := r.sys
			r.sys = &removeFault{real, func(name string, isDir bool) error {
				if name == "file" {
					must(t, os.Rename(base+"/root/tree/sub", base+"/root/kept"))
					must(t, os.Mkdir(base+"/root/tree/sub", 0o700))
				}
				return nil
			}}
			report, err := r.RemoveTree(t.Context(), "tree", o)
			r.sys = real
			want(t, "replaced", err, ErrChanged)
			if len(report.Left) != 1 || report.Left[0].Path != "tree/sub" {
				t.Errorf("%+v", report)
			}
			must(t, os.Remove(base+"/root/kept"))

			receipt, err := r.Receipt("tree")
			must(t, err)
			must(t, os.Rename(base+"/root/tree", base+"/root/old"))
			must(t, os.MkdirAll(base+"/root/tree/new", 0o755))
			o.IfMatch = &receipt
			_, err = r.RemoveTree(t.Context(), "tree", o)
			want(t, "another directory", err, ErrChanged)
			_, err = r.RemoveTree(t.Context(), "old", o)
			must(t, err)
			must(t, os.RemoveAll(base+"/root/tree"))
		})
	})
}

func TestRemoveTreeCanceled(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			growBranches(t, base+"/root/tree", 10)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cause := errors.New("enough")
			real := r.sys
			r.sys = &removeFault{real, func(string, bool) error { cancel(cause); return nil }}
			report, err := r.RemoveTree(ctx, "tree", o)
			r.sys = real
			want(t, "canceled", err, cause)
			if report.Removed == 0 || report.Removed > 20 {
				t.Errorf("%d removed", report.Removed)
			}
			must(t, r.RemoveAll("tree"))
		})
	})
}

// case 168 with workers: handles stay bounded in a deep tree.
func TestRemoveDeepTreeByWorkers(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/deep", 0o755))
		deepTree(t, base+"/root/deep", 5000)
		report, err := r.RemoveTree(t.Context(), "deep", TreeLimits{Workers: 4})
		must(t, err)
		if report.Removed != 5001 {
			t.Errorf("%d removed", report.Removed)
		}
	})
}

// case 167: a removal of directories that flip between themselves and a link to
// the outside. The outside is sealed by eachResolver.
func TestRemoveTreeRace(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		stop := raceTree(t, base, 2000)
		defer stop()
		removed := int64(0)
		for end, n := time.Now().Add(2*time.Second), 0; time.Now().Before(end); n++ {
			report, err := r.RemoveTree(t.Context(), "w", TreeLimits{Force: true, Workers: 1 + n%2*3})
			if removed += report.Removed; err != nil && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrUnstable) {
				t.Error(err)
			}
			growRaceTree(t, base, 2000)
		}
		stop()
		if removed < 2000 {
			t.Errorf("only %d removed", removed)
		}
		must(t, r.RemoveAll("w"))
	})
}

// The twin: a removal by path loses the outside to the same attack.
func TestRemoveTreeRaceTwin(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/outside", 0o755))
	must(t, os.MkdirAll(base+"/root", 0o755))
	defer raceTree(t, base, 20)()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		must(t, os.WriteFile(base+"/outside/secret", nil, 0o644))
		naiveRemove(base + "/root/w")
		if _, err := os.Stat(base + "/outside/secret"); err != nil {
			return
		}
		growRaceTree(t, base, 20)
	}
	t.Error("the naive removal was never caught: the attack is too weak to prove anything")
}

func naiveRemove(path string) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			naiveRemove(path + "/" + e.Name())
		}
	}
	os.Remove(path)
}
