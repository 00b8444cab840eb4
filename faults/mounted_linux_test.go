package faults

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/faultfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, err, cause error) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Errorf("%s: %v, want %v", what, err, cause)
	}
}

// mounted is a new file system, at a directory, or the reason to skip.
func mounted(t *testing.T, o faultfs.Options) (*faultfs.FS, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	f, dir := faultfs.New(o), t.TempDir()
	unmount, err := f.Mount(dir)
	if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EPERM) {
		t.Skipf("no FUSE: %v", err)
	}
	must(t, err)
	t.Cleanup(unmount)
	return f, dir
}

// opened is a Root of the directory.
func opened(t *testing.T, dir string, p caproot.Policy) *caproot.Root {
	t.Helper()
	r, err := caproot.Open(dir, p)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// durable is the policy under which publications wait for the directory too.
func durable() caproot.Policy {
	p := caproot.Workspace()
	p.Durability = caproot.DurabilityDir
	return p
}

// stages are the names of what publications left.
func stages(files map[string]string) (left []string) {
	for name := range files {
		if strings.Contains(name, ".caproot-stage-") {
			left = append(left, name)
		}
	}
	return left
}

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// full, poor and bare are file systems as there are: one with every call, one as
// most FUSE servers are, and one with nothing but files and a rename.
func kinds() map[string]faultfs.Options {
	return map[string]faultfs.Options{
		"full": {},
		"poor": {NoUnnamed: true, NoRenameFlags: true, NoGenerations: true, ReadAtMost: 3, WriteAtMost: 5},
		"bare": {NoUnnamed: true, NoRenameFlags: true, NoLinks: true, NoGenerations: true, Locks: faultfs.LocksRefused},
	}
}
