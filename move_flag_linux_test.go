package caproot

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// withoutNoReplace is a file system that does not know the flag.
type withoutNoReplace struct{ system }

func (s withoutNoReplace) rename(from handle, name string, to handle, newName string, how renameHow) error {
	if how == noReplace {
		return syscall.EINVAL
	}
	return s.system.rename(from, name, to, newName, how)
}

// An EINVAL of the flag stays what it is, for a directory too.
func TestMoveWithoutFlag(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/other", 0o755))
		r.sys = withoutNoReplace{r.sys}
		_, err := r.Move("dir", "other/dir", MoveOptions{})
		want(t, "Move", err, ErrUnsupported)
		if errors.Is(err, ErrName) {
			t.Error(err)
		}
		_, err = r.Move("dir", "dir/dir", MoveOptions{})
		want(t, "Move into itself", err, ErrName)
	})
}
