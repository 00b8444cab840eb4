package caproot

import (
	"io/fs"
	"os"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What Stat and Lstat tell is what package os tells.
func TestFileInfoIsThatOfOS(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		root := base + "/root/"
		mkfifo(t, root+"fifo")
		must(t, unix.Mknod(root+"socket", unix.S_IFSOCK|0o600, 0))
		must(t, os.WriteFile(root+"sticky", make([]byte, 5000), 0o600))
		must(t, os.Chmod(root+"sticky", 0o754|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
		must(t, os.Chtimes(root+"sticky", time.Unix(-5, 1), time.Unix(1<<33, 999_999_999)))
		names := []string{"f", "dir", "in", "lk", "fifo", "socket", "sticky", "dir/file"}
		if unix.Mknod(root+"zero", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) == nil {
			names = append(names, "zero")
		}
		for _, name := range names {
			mine, err := r.Lstat(name)
			must(t, err)
			theirs, err := os.Lstat(root + name)
			must(t, err)
			if mine.Name() != theirs.Name() || mine.Size() != theirs.Size() || mine.Mode() != theirs.Mode() ||
				!mine.ModTime().Equal(theirs.ModTime()) || mine.IsDir() != theirs.IsDir() {
				t.Errorf("%v\nos: %v", fs.FormatFileInfo(mine), fs.FormatFileInfo(theirs))
			}
			if !reflect.DeepEqual(mine.Sys(), theirs.Sys()) {
				t.Errorf("%s: Sys is %+v\nos: %+v", name, mine.Sys(), theirs.Sys())
			}
			for _, pair := range [][2]fs.FileInfo{{mine, theirs}, {theirs, mine}, {mine, mine}, {theirs, theirs}} {
				if !SameFile(pair[0], pair[1]) {
					t.Errorf("%s: not the same file as itself", name)
				}
			}
		}
		f, err := r.Stat("lk")
		must(t, err)
		lk, err := r.Lstat("lk")
		must(t, err)
		file, err := r.Stat("f")
		must(t, err)
		if SameFile(f, lk) || !SameFile(f, file) || SameFile(f, foreignInfo{}) || SameFile(foreignInfo{}, foreignInfo{}) {
			t.Error("SameFile mixes files up")
		}
	})
}

// foreignInfo is of no file that a system knows.
type foreignInfo struct{ fs.FileInfo }

func (foreignInfo) Sys() any { return nil }
