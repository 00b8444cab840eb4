package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

func openFDs(t *testing.T) int {
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}

// changed is the time of the last change, of attributes too.
func changed(info fs.FileInfo) string {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix()).String()
}

// resolvers are the ways to resolve a path that there are.
func resolvers() []string { return []string{"kernel", "walker"} }

func (w walkOnly) countsUses(h handle) bool { return w.system.(useCounter).countsUses(h) }

// swapped is how a known object is replaced.
const swapped = identity.Swapped

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
