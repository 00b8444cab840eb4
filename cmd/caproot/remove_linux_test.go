package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if got := caprootRun(t, "", "rm", "-r", "--mounts=cross", root, "dir"); got.code != exitNo {
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

// A first signal ends rm -r between two names, and it says how far it came.
func TestSignalDuringRemove(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		base, root := tree(t)
		crowd(t, filepath.Join(root, "many"), 10000)
		cmd := command("rm", "-r", root, "many")
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		must(t, cmd.Start())
		// The signal comes when one of the 20 directories is gone.
		for deadline := time.Now().Add(time.Minute); ; {
			entries, err := os.ReadDir(filepath.Join(root, "many"))
			if err != nil || len(entries) < 20 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing is removed")
			}
		}
		must(t, cmd.Process.Signal(sig))
		_ = cmd.Wait()
		checkMessages(t, cmd.Args, errOut.String())
		if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.HasPrefix(errOut.String(), "caproot: note: removed ") ||
			!strings.HasSuffix(errOut.String(), "\ncaproot: canceled: rm stopped by a signal\n") {
			t.Errorf("%v: exit %d, stderr %s", sig, code, errOut.String())
		}
		if _, err := os.Lstat(filepath.Join(root, "many")); err != nil {
			t.Errorf("%v: the signal came too late: %v", sig, err)
		}
		checkOutside(t, base)
	}
}
