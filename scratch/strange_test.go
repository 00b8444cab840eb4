package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caproot/caproot"
)

// left makes what a dead process leaves.
func left(t *testing.T, tmp, name string) (named string) {
	t.Helper()
	named = filepath.Join(tmp, name)
	must(t, os.MkdirAll(filepath.Join(named, contentName, "deep"), 0o700))
	for _, file := range []string{ownerName, "content/file", "content/deep/file"} {
		must(t, os.WriteFile(filepath.Join(named, file), nil, 0o600))
	}
	return named
}

// A directory with an entry that New did not make stays as it is.
func TestSweepStranger(t *testing.T) {
	_, tmp, r := place(t)
	named := left(t, tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	other := filepath.Join(named, "other")
	must(t, os.WriteFile(other, nil, 0o600))
	removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
	if len(removed) != 0 || !errors.Is(err, caproot.ErrChanged) {
		t.Errorf("swept %q: %v, want ErrChanged", removed, err)
	}
	wantNames(t, named, contentName, "other", ownerName)
	wantNames(t, filepath.Join(named, contentName), "deep", "file")

	must(t, os.Remove(other))
	removed, err = Sweep(t.Context(), r, "tmp", prefix, 0)
	if len(removed) != 1 || err != nil {
		t.Errorf("swept %q: %v", removed, err)
	}
	wantNames(t, tmp)
}

// A content that is no directory is not that of New.
func TestSweepContentOfOthers(t *testing.T) {
	_, tmp, r := place(t)
	named := left(t, tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	must(t, os.RemoveAll(filepath.Join(named, contentName)))
	must(t, os.WriteFile(filepath.Join(named, contentName), []byte("x"), 0o600))
	removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
	if len(removed) != 0 || !errors.Is(err, caproot.ErrChanged) {
		t.Errorf("swept %q: %v, want ErrChanged", removed, err)
	}
	wantNames(t, named, contentName, ownerName)
}

func TestPrefixRefused(t *testing.T) {
	_, tmp, r := place(t)
	for _, bad := range []string{"*", "job-*", "j*b-", "a/b", `a\b`, "/", "../"} {
		if _, err := New(r, "tmp", Options{Prefix: bad}); !errors.Is(err, caproot.ErrName) {
			t.Errorf("New with %q: %v, want ErrName", bad, err)
		}
		if _, err := Sweep(t.Context(), r, "tmp", bad, 0); !errors.Is(err, caproot.ErrName) {
			t.Errorf("Sweep with %q: %v, want ErrName", bad, err)
		}
	}
	for _, bad := range []string{".caproot-stage-", "a\x00", strings.Repeat("x", 250)} {
		if _, err := New(r, "tmp", Options{Prefix: bad}); !errors.Is(err, caproot.ErrName) {
			t.Errorf("New with %q: %v, want ErrName", bad, err)
		}
	}
	wantNames(t, tmp)
}

// A sweep finds the names of its own prefix, and not those of a prefix that
// continues it.
func TestPrefixesApart(t *testing.T) {
	const random = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	prefixes := []string{"", "job-", random, "job-" + random, "job-" + random[:1]}
	for _, own := range prefixes {
		_, tmp, r := place(t)
		for _, p := range prefixes {
			left(t, tmp, p+random)
		}
		removed, err := Sweep(t.Context(), r, "tmp", own, 0)
		must(t, err)
		if len(removed) != 1 || removed[0] != own+random {
			t.Errorf("%q: swept %q", own, removed)
		}
		d, err := New(r, "tmp", Options{Prefix: own})
		must(t, err)
		if !isScratch(d.Name(), own) {
			t.Errorf("%q: no sweep finds %q", own, d.Name())
		}
		must(t, d.Remove())
	}
}

// Root may be asked while another goroutine removes; what it gave is closed then.
func TestRootBesideRemove(t *testing.T) {
	_, _, r := place(t)
	d, err := New(r, "tmp", Options{Prefix: prefix})
	must(t, err)
	done := make(chan error)
	go func() {
		for {
			if _, err := d.Root().Exists("x"); err != nil {
				done <- err
				return
			}
		}
	}()
	must(t, d.Remove())
	if d.Root() == nil {
		t.Error("no Root after Remove")
	}
	if err := <-done; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Remove: %v, want ErrClosed", err)
	}
}
