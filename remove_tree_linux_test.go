package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
		want(t, "told to cross", err, syscall.EBUSY)
		gone(t, base+"/root/tree/m/f")
		if report.Removed != 1 || len(report.Left) != 1 || report.Left[0].Path != "tree/m" {
			t.Errorf("%+v", report)
		}
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
