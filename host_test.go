package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// symlink makes a link, or skips where the system makes none: it refuses, as
// Windows without the privilege, or says yes and makes nothing, as Wine.
func symlink(t *testing.T, target, path string) {
	t.Helper()
	needsLinks(t)
	must(t, os.Symlink(target, path))
}

func needsLinks(t *testing.T) {
	t.Helper()
	if !makesLinks(t) {
		t.Skip("no symbolic links here")
	}
}

func makesLinks(t *testing.T) bool {
	probe := filepath.Join(t.TempDir(), "link")
	err := os.Symlink("nowhere", probe)
	_, lerr := os.Lstat(probe)
	return err == nil && lerr == nil
}

// needsModes skips where a file has no mode but read-only.
func needsModes(t *testing.T) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "mode")
	must(t, os.WriteFile(probe, nil, 0o640))
	if info, err := os.Stat(probe); err != nil || info.Mode().Perm() != 0o640 {
		t.Skip("no modes here but read-only")
	}
}

// noStage finds leftovers of publications anywhere in the tree.
func noStage(t *testing.T, base string) {
	for _, dir := range []string{"/root", "/root/dir", "/root/away", "/outside"} {
		entries, _ := os.ReadDir(base + dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), stagePrefix) {
				t.Errorf("%s holds %s", dir, e.Name())
			}
		}
	}
}

func noStageIn(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagePrefix) {
			t.Errorf("%s holds %s", dir, e.Name())
		}
	}
}

// discard removes a tree whose modes may keep its owner out.
func discard(dir string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// giveBack lets an owner who is not root remove the directories of a test.
func giveBack(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	}))
}
