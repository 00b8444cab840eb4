//go:build linux || darwin || freebsd

package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/caproot/caproot"
)

// replace moves the content of the directory named to moved, and gives its name to
// something precious.
func replace(t *testing.T, named, moved, by string) {
	t.Helper()
	content := filepath.Join(named, contentName)
	must(t, os.Rename(content, moved))
	precious := t.TempDir()
	must(t, os.WriteFile(filepath.Join(precious, "keep"), []byte("x"), 0o600))
	switch by {
	case "link":
		must(t, os.Symlink(precious, content))
	case "directory":
		must(t, os.Rename(precious, content))
	case "file":
		must(t, os.Rename(filepath.Join(precious, "keep"), content))
	}
}

// Case 165, for the content: what has its name stays, the work goes.
func TestContentReplaced(t *testing.T) {
	for by, kept := range map[string]string{"link": "content/keep", "directory": "content/keep", "file": "content", "nothing": ""} {
		t.Run(by, func(t *testing.T) {
			dir, tmp, r := place(t)
			d, err := New(r, "tmp", Options{Prefix: prefix})
			must(t, err)
			_, err = d.Root().Put("deep/file", []byte("secret"), caproot.PutOptions{Parents: true})
			must(t, err)
			named, moved := filepath.Join(tmp, d.Name()), filepath.Join(dir, "moved")
			replace(t, named, moved, by)
			err = d.Remove()
			wantNames(t, moved) // emptied where it is
			must(t, d.Remove())
			if kept == "" {
				must(t, err)
				wantNames(t, tmp)
				return
			}
			if !errors.Is(err, caproot.ErrChanged) {
				t.Errorf("Remove: %v, want ErrChanged", err)
			}
			for range 2 {
				if _, err := os.Stat(filepath.Join(named, kept)); err != nil {
					t.Errorf("what was put there is gone: %v", err)
				}
				if removed, err := Sweep(t.Context(), r, "tmp", prefix, 0); len(removed) != 0 || err != nil {
					t.Errorf("swept %q: %v", removed, err)
				}
			}
		})
	}
}

// Of a dead process's content a sweep removes what it has opened, not what has
// the name later.
func TestContentReplacedUnderSweep(t *testing.T) {
	dir, tmp, r := place(t)
	named := left(t, tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	outer, err := r.OpenRoot("tmp/" + filepath.Base(named))
	must(t, err)
	defer outer.Close()
	work, made, err := openSame(outer, contentName)
	must(t, err)
	defer work.Close()
	moved := filepath.Join(dir, "moved")
	replace(t, named, moved, "directory")
	err = clearContent(t.Context(), outer, work, made)
	if !errors.As(err, new(*replacedError)) || !errors.Is(err, caproot.ErrChanged) {
		t.Errorf("clearContent: %v", err)
	}
	wantNames(t, moved)
	wantNames(t, filepath.Join(named, contentName), "keep")
}
