package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// POSIX leaves O_TRUNC without an open for writing undefined. It is refused before
// anything is touched, whatever the policy and whoever looks on.
func TestTruncatingNeedsWriting(t *testing.T) {
	for preset, p := range map[string]Policy{"workspace": Workspace(), "compat": Compat()} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o644))
		plain, err := Open(dir, p)
		must(t, err)
		defer plain.Close()
		granted, err := plain.Grant(".", Grant{Policy: p, Before: func(m Mutation) error {
			t.Errorf("%s: asked about %+v", preset, m)
			return nil
		}})
		must(t, err)
		defer granted.Close()
		for kind, r := range map[string]*Root{"plain": plain, "grant": granted} {
			for _, flag := range []int{os.O_TRUNC, os.O_TRUNC | os.O_CREATE, os.O_TRUNC | os.O_CREATE | os.O_EXCL} {
				for _, name := range []string{"file", "fresh"} {
					_, err := r.OpenFile(name, os.O_RDONLY|flag, 0o644)
					if !errors.Is(err, ErrName) || !errors.Is(err, fs.ErrInvalid) {
						t.Errorf("%s, %s: OpenFile(%q, %#x): %v", preset, kind, name, flag, err)
					}
					_, err = r.OpenView(name, os.O_RDONLY|flag, 0o644)
					if !errors.Is(err, ErrName) {
						t.Errorf("%s, %s: OpenView(%q, %#x): %v", preset, kind, name, flag, err)
					}
				}
			}
		}
		if data, err := os.ReadFile(filepath.Join(dir, "file")); string(data) != "kept" || err != nil {
			t.Errorf("%s: file is %q, %v", preset, data, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "fresh")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: fresh was made (%v)", preset, err)
		}
	}
}
