package caproot

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/fstest"
)

// liar says that it is of a directory, and has nothing in it.
type liar struct {
	files fstest.MapFS
	of    *syscall.Stat_t
}

type lie struct {
	fs.FileInfo
	of *syscall.Stat_t
}

func (l lie) Sys() any { return l.of }

type lying struct {
	fs.ReadDirFile
	of *syscall.Stat_t
}

func (l lying) Stat() (fs.FileInfo, error) {
	info, err := l.ReadDirFile.Stat()
	return lie{info, l.of}, err
}

func (l lying) ReadDir(int) ([]fs.DirEntry, error) { return nil, errNotToday }

var errNotToday = errors.New("not today")

func (l liar) Open(name string) (fs.File, error) {
	f, err := l.files.Open(name)
	if err != nil {
		return nil, err
	}
	return lying{f.(fs.ReadDirFile), l.of}, nil
}

func (l liar) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(l.files, name)
	return lie{info, l.of}, err
}

// A source that says which directory it is of finds out nothing about the
// directories above a root: the answer is that for any other number.
func TestCopyFSTellsNothingOfAbove(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		ask := func(path string) error {
			info, err := os.Stat(path)
			must(t, err)
			return r.CopyFS("dir", liar{fstest.MapFS{"d/f": {}}, info.Sys().(*syscall.Stat_t)})
		}
		for _, above := range []string{base, base + "/..", "/"} {
			want(t, above, ask(above), errNotToday)
		}
		want(t, "the root", ask(base+"/root"), ErrName)
		want(t, "the directory", ask(base+"/root/dir"), ErrName)
		want(t, "proved", r.CopyFS("dir", os.DirFS(base)), ErrName)
	})
}
