package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// case 4: an entry describes what was listed, or fails.
func TestEntryOfReplacedDirectory(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/dir/secret", []byte("inside"), 0o600))
		entries, err := r.ReadDir("dir")
		must(t, err)
		must(t, os.Rename(base+"/root/dir", base+"/root/away"))
		for what, replace := range map[string]func() error{
			"a link to outside": func() error { return os.Symlink("../outside", base+"/root/dir") },
			"another directory": func() error {
				return errors.Join(os.Mkdir(base+"/root/dir", 0o755), os.WriteFile(base+"/root/dir/secret", nil, 0o600))
			},
			"a file":       func() error { return os.WriteFile(base+"/root/dir", nil, 0o600) },
			"a link to it": func() error { return os.Symlink("away", base+"/root/dir") },
		} {
			if what == "a file" && errors.Is(syscall.ENOTDIR, fs.ErrNotExist) {
				continue // Windows has one error for both
			}
			if strings.Contains(what, "link") && !makesLinks(t) {
				continue
			}
			must(t, replace())
			for _, e := range entries {
				i, err := e.Info()
				if what == "a link to it" {
					must(t, err) // the very directory, by another way
					continue
				}
				if err == nil || i != nil || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %s: %v, %v", what, e.Name(), i, err)
				}
			}
			must(t, os.RemoveAll(base+"/root/dir"))
		}
		for _, e := range entries {
			_, err := e.Info()
			want(t, "gone", err, fs.ErrNotExist)
		}
	})
}

func TestFSView(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		symlink(t, "../dir/file", base+"/root/dir/up")
		fsys := r.FS()
		for name, target := range map[string]string{"lk": "f", "in": "dir", "out": "../outside", "dir/up": "../dir/file"} {
			got, err := fs.ReadLink(fsys, name)
			if got != target || err != nil {
				t.Errorf("ReadLink(%s): %q, %v", name, got, err)
			}
			i, err := fs.Lstat(fsys, name)
			must(t, err)
			if i.Mode().Type() != fs.ModeSymlink {
				t.Errorf("Lstat(%s): %v", name, i.Mode())
			}
		}
		_, err := fs.ReadLink(fsys, "f")
		want(t, "ReadLink of a file", err, syscall.EINVAL)
		for name, cause := range map[string]error{".": fs.ErrInvalid, "no": fs.ErrNotExist, "out/x": ErrEscape} {
			_, err := fs.ReadLink(fsys, name)
			want(t, "ReadLink "+name, err, cause)
		}
		i, err := fs.Stat(fsys, "lk")
		must(t, err)
		if !i.Mode().IsRegular() {
			t.Errorf("Stat(lk): %v", i.Mode())
		}
		matches, err := fs.Glob(fsys, "*/f*")
		must(t, err)
		if strings.Join(matches, " ") != "dir/file in/file" {
			t.Errorf("Glob: %q", matches)
		}
		data, err := fs.ReadFile(fsys, "in/file")
		if string(data) != "file" || err != nil {
			t.Errorf("ReadFile: %q, %v", data, err)
		}
		// The spelling rules of package fs, for each of its calls.
		for _, name := range []string{"", "/f", "./f", "f/", "dir//file", "dir/../f", "..", "../outside/secret"} {
			for call, err := range map[string]error{
				"Open":     second(fsys.Open(name)),
				"ReadFile": second(fs.ReadFile(fsys, name)),
				"ReadDir":  second(fs.ReadDir(fsys, name)),
				"Stat":     second(fs.Stat(fsys, name)),
				"Lstat":    second(fs.Lstat(fsys, name)),
				"ReadLink": second(fs.ReadLink(fsys, name)),
			} {
				want(t, call+" "+name, err, fs.ErrInvalid)
			}
		}
		for _, name := range []string{"out/secret", "abs/secret"} {
			_, err := fsys.Open(name)
			want(t, name, err, ErrEscape)
		}
		var walked []string
		must(t, fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
			walked = append(walked, path)
			return err
		}))
		if got := strings.Join(walked, " "); got != ". abs dir dir/file dir/up f in lk out" {
			t.Errorf("walked %q", got)
		}
		copied := filepath.Join(t.TempDir(), "copy")
		sub, err := fs.Sub(fsys, "dir")
		must(t, err)
		must(t, os.CopyFS(copied, sub))
		if data, err := os.ReadFile(copied + "/file"); string(data) != "file" || err != nil {
			t.Errorf("copied %q, %v", data, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }
