// Package interop runs lock users of Go and of Node (@openclaw/fs-safe) against
// each other on the same files. Set CAPROOT_INTEROP=1 to install the Node
// package into a temporary directory and run.
package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the Go peer.
func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) != "" {
		os.Exit(servePeer())
	}
	code := m.Run()
	if dir, err := installed(); err == nil && dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// installed is a directory with peer.mjs and its package; "" if not asked for.
var installed = sync.OnceValues(func() (string, error) {
	if os.Getenv("CAPROOT_INTEROP") == "" {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "caproot-interop")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "peer.mjs"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", err
		}
	}
	npm := exec.Command("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	return dir, nil
})

// nodePeer is the directory of the Node peer. A test without it says why.
func nodePeer(t *testing.T) string {
	t.Helper()
	dir, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	if dir == "" {
		t.Skip("needs node and npm: CAPROOT_INTEROP=1 installs @openclaw/fs-safe and runs this")
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	fi, err := os.Lstat(name)
	must(t, err)
	return fi.Sys().(*syscall.Stat_t).Ino
}

// entries lists what a directory holds.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
