package caproot

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
)

// A directory is not moved into itself: the name is wrong, and nothing is said
// to be unsupported.
func TestMoveIntoItself(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/dir/sub/deep", 0o755))
		f, err := os.Open(base + "/root/dir")
		must(t, err)
		defer f.Close()
		for what, move := range map[string]func(to string) error{
			"Move":           func(to string) error { _, err := r.Move("dir", to, MoveOptions{}); return err },
			"Move replacing": func(to string) error { _, err := r.Move("dir", to, MoveOptions{Replace: true}); return err },
			"Move across":    func(to string) error { _, err := r.Move("dir", to, MoveOptions{CrossDevice: true}); return err },
			"Rename":         func(to string) error { return r.Rename("dir", to) },
			"MoveSame":       func(to string) error { return r.MoveSame("dir", to, f) },
		} {
			names := []string{"dir/new", "dir/sub/new", "dir/sub/deep/../new"}
			if runtime.GOOS == "windows" {
				names = names[:1] // no handle has a ".." there; deeper ones are in use, says the system
			}
			for _, to := range names {
				err := move(to)
				var link *os.LinkError
				if !errors.Is(err, ErrName) || !errors.Is(err, fs.ErrInvalid) || Code(err) != "name" || !errors.As(err, &link) {
					t.Errorf("%s to %s: %v, code %s", what, to, err, Code(err))
				}
			}
			if what == "Move" && Code(r.Mkdir("dir/there", 0o755)) == "" {
				for _, names := range [][2]string{{"dir", "dir/there"}, {"dir/there", "dir"}} {
					_, err := r.Exchange(names[0], names[1], MoveOptions{})
					want(t, "Exchange", err, ErrName)
				}
			}
			if _, err := os.Lstat(base + "/root/dir/sub/deep"); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	})
}
