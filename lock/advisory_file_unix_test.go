//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// What has the name is no lock file, or must not be made.
func TestAdvisoryRefuses(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	r, ctx := openRoot(t, dir), context.Background()
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(t, os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "out")))
	must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for name, target := range map[string]error{
		"dangling": caproot.ErrSymlink, "out": caproot.ErrEscape, "dir": unix.EISDIR, "fifo": caproot.ErrSpecial,
		"../x": caproot.ErrEscape, "no/such": fs.ErrNotExist, ".": nil,
	} {
		before := names(t, dir)
		_, err := AcquireAdvisory(ctx, r, name, AdvisoryOptions{})
		if err == nil || target != nil && !errors.Is(err, target) {
			t.Errorf("%s: %v, want %v", name, err, target)
		}
		if after := names(t, dir); len(after) != len(before) {
			t.Errorf("%s: left %v", name, after)
		}
	}
	if left := names(t, outside); len(left) != 0 {
		t.Errorf("outside has %v", left)
	}
	readOnly, err := caproot.Open(dir, caproot.ReadOnly())
	must(t, err)
	defer readOnly.Close()
	_, err = AcquireAdvisory(ctx, readOnly, "new", AdvisoryOptions{})
	want(t, "read-only root", err, caproot.ErrPolicy)
	wantIdle(t)
}

// The file is made once, private, and says what it is, whatever the umask.
func TestAdvisoryFile(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	defer unix.Umask(unix.Umask(0o777))
	want(t, "first", tryAdvisory(t, r, "l", false), nil)
	first, err := os.Stat(filepath.Join(dir, "l"))
	must(t, err)
	if first.Mode() != 0o600 || first.Size() != int64(len(advisoryNote)) {
		t.Errorf("mode %v, %d bytes", first.Mode(), first.Size())
	}
	want(t, "second", tryAdvisory(t, r, "l", true), nil)
	second, err := os.Stat(filepath.Join(dir, "l"))
	must(t, err)
	if !os.SameFile(first, second) || len(names(t, dir)) != 1 {
		t.Errorf("made again, or more than once: %v", names(t, dir))
	}
}
