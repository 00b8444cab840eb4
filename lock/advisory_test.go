package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/caproot/caproot"
)

func tryAdvisory(t *testing.T, r *caproot.Root, name string, shared bool) error {
	t.Helper()
	l, err := TryAdvisory(context.Background(), r, name, AdvisoryOptions{Shared: shared})
	if err == nil {
		must(t, l.Release())
	}
	return err
}

// wantIdle wants that nothing of this process is left of a lock file.
func wantIdle(t *testing.T) {
	t.Helper()
	advisoryLines.mu.Lock()
	defer advisoryLines.mu.Unlock()
	if n := len(advisoryLines.m); n != 0 {
		t.Errorf("%d lock files are still open", n)
	}
}

func TestAdvisoryBetweenProcesses(t *testing.T) {
	for _, c := range []struct {
		theirs            string
		shared, exclusive error
	}{{"", ErrBusy, ErrBusy}, {" shared", nil, ErrBusy}} {
		t.Run("held"+c.theirs, func(t *testing.T) {
			dir := t.TempDir()
			r := openRoot(t, dir)
			other := startAdvisory(t, dir, "hold l"+c.theirs)
			other.hears("held")
			want(t, "shared", tryAdvisory(t, r, "l", true), c.shared)
			err := tryAdvisory(t, r, "l", false)
			want(t, "exclusive", err, c.exclusive)
			var busy *BusyError
			if errors.As(err, &busy) && busy.Own {
				t.Error("a lock of another process is said to be of this one")
			}
			other.tell()
			other.hears("released <nil>")
			want(t, "after the release", tryAdvisory(t, r, "l", false), nil)
			wantIdle(t)
		})
	}
}

func TestAdvisoryCount(t *testing.T) {
	dir := t.TempDir()
	wantCount(t, dir, "l", 4, 100)
}

// Case 144: a lock on a range is mandatory on Windows, and lies beyond the content.
// Wine does not enforce it: there this proves nothing.
func TestAdvisoryContentIsReadable(t *testing.T) {
	dir := t.TempDir()
	other := startAdvisory(t, dir, "hold l")
	other.hears("held")
	data, err := os.ReadFile(filepath.Join(dir, "l"))
	must(t, err)
	if string(data) != advisoryNote {
		t.Errorf("content %q", data)
	}
}

// The kernel drops the lock of a process that dies.
func TestAdvisoryKilledHolder(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	other := startAdvisory(t, dir, "hold l")
	other.hears("held")
	got := make(chan error)
	go func() {
		l, err := AcquireAdvisory(context.Background(), r, "l", AdvisoryOptions{})
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	other.kill()
	must(t, <-got)
}
