package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// case 173: rm -r empties what is mounted in the tree when it is told to, and only
// then. The mount point is the system's.
func TestRemoveMounts(t *testing.T) {
	_, root := tree(t)
	point := filepath.Join(root, "dir", "point")
	must(t, os.Mkdir(point, 0o755))
	if err := unix.Mount("tmpfs", point, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no mount: %v", err)
	}
	defer unix.Unmount(point, unix.MNT_DETACH)
	inside := filepath.Join(point, "x")
	must(t, os.WriteFile(inside, nil, 0o600))
	for _, args := range [][]string{{}, {"--mounts=stay"}, {"--policy=compat"}, {"--policy=compat", "--mounts=stay"}} {
		if got := caprootRun(t, "", append([]string{"rm", "-r", root, "dir"}, args...)...); got.code == exitDone {
			t.Errorf("rm -r %q: %+v", args, got)
		}
		if _, err := os.Lstat(inside); err != nil {
			t.Fatalf("rm -r %q: %v", args, err)
		}
	}
	if got := caprootRun(t, "", "rm", "-r", "--mounts=cross", root, "dir"); got.code == exitDone {
		t.Errorf("rm -r of a mount point: %+v", got)
	}
	if _, err := os.Lstat(inside); !os.IsNotExist(err) {
		t.Errorf("what was mounted: %v, want none", err)
	}
	must(t, unix.Unmount(point, 0))
	if got := caprootRun(t, "", "rm", "-r", root, "dir"); got.code != exitDone {
		t.Errorf("rm -r after the mount: %+v", got)
	}
}
