package caproot

import (
	"io/fs"
	"os"
	"reflect"
	"testing"
	"time"
)

// osRootMethods is the whole method set of os.Root. R is the type itself, which
// OpenRoot returns.
type osRootMethods[R any] interface {
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
	Close() error
	Create(name string) (*os.File, error)
	FS() fs.FS
	Lchown(name string, uid, gid int) error
	Link(oldname, newname string) error
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Name() string
	Open(name string) (*os.File, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	OpenRoot(name string) (R, error)
	ReadFile(name string) ([]byte, error)
	Readlink(name string) (string, error)
	Remove(name string) error
	RemoveAll(name string) error
	Rename(oldname, newname string) error
	Stat(name string) (fs.FileInfo, error)
	Symlink(oldname, newname string) error
	WriteFile(name string, data []byte, perm fs.FileMode) error
}

var (
	_ osRootMethods[*os.Root] = (*os.Root)(nil)
	_ osRootMethods[*Root]    = (*Root)(nil)
)

// A method that a new release of Go gives os.Root shows up here.
func TestMethodSetIsComplete(t *testing.T) {
	have := reflect.TypeFor[osRootMethods[*os.Root]]()
	for theirs := range reflect.TypeFor[*os.Root]().Methods() {
		if _, ok := have.MethodByName(theirs.Name); !ok {
			t.Errorf("os.Root.%s %v is not in the interface", theirs.Name, theirs.Type)
		}
	}
}
