package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caproot/caproot/internal/testfs"
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
	t.Helper()
	made, err := linksMade()
	must(t, err)
	return made
}

var linksMade = sync.OnceValues(func() (bool, error) {
	dir, err := os.MkdirTemp("", "links")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	probe := filepath.Join(dir, "link")
	err = os.Symlink("nowhere", probe)
	_, lerr := os.Lstat(probe)
	return err == nil && lerr == nil, nil
})

// linked is the name of the directory dir by its link, where there are links.
func linked(t *testing.T) string {
	if makesLinks(t) {
		return "in"
	}
	return "dir"
}

// withoutLinks leaves out the names of a test that go through the links of
// eachResolver, where there are none.
func withoutLinks(t *testing.T, names []string) (kept []string) {
	if makesLinks(t) {
		return names
	}
	for _, name := range names {
		through := slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
			return slices.Contains([]string{"in", "out", "abs", "lk"}, part)
		})
		if !through {
			kept = append(kept, name)
		}
	}
	return kept
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

// notUnderWine skips a test of what Wine does otherwise than Windows.
func notUnderWine(t *testing.T, does string) {
	t.Helper()
	if testfs.UnderWine() {
		t.Skip("Wine " + does)
	}
}

// stageIn is the path of the one stage in the root.
func stageIn(t *testing.T, base string) string {
	t.Helper()
	found, err := filepath.Glob(base + "/root/" + stagePrefix + "*")
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("stages: %q", found)
	}
	return found[0]
}
