package caproot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"pgregory.net/rapid"
)

// rootMethods are the methods that os.Root and Root have in common, without
// OpenRoot, whose result differs.
type rootMethods interface {
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
	Create(name string) (*os.File, error)
	Lchown(name string, uid, gid int) error
	Link(oldname, newname string) error
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	ReadFile(name string) ([]byte, error)
	Readlink(name string) (string, error)
	Remove(name string) error
	RemoveAll(name string) error
	Rename(oldname, newname string) error
	Stat(name string) (fs.FileInfo, error)
	Symlink(oldname, newname string) error
	WriteFile(name string, data []byte, perm fs.FileMode) error
}

// operation is one call of a plan.
type operation struct {
	verb string
	a, b string
	flag int
	mode fs.FileMode
}

func (o operation) String() string {
	return fmt.Sprintf("%s(%q, %q, %#x, %v)", o.verb, o.a, o.b, o.flag, o.mode)
}

// planVerbs run one operation and tell what they saw.
var planVerbs = map[string]func(r rootMethods, o operation) (string, error){
	"Chmod":     func(r rootMethods, o operation) (string, error) { return "", r.Chmod(o.a, o.mode) },
	"Chown":     func(r rootMethods, o operation) (string, error) { return "", r.Chown(o.a, -1, -1) },
	"Lchown":    func(r rootMethods, o operation) (string, error) { return "", r.Lchown(o.a, -1, -1) },
	"Chtimes":   func(r rootMethods, o operation) (string, error) { return "", r.Chtimes(o.a, epoch, epoch) },
	"Link":      func(r rootMethods, o operation) (string, error) { return "", r.Link(o.a, o.b) },
	"Rename":    func(r rootMethods, o operation) (string, error) { return "", r.Rename(o.a, o.b) },
	"Symlink":   func(r rootMethods, o operation) (string, error) { return "", r.Symlink(o.b, o.a) },
	"Mkdir":     func(r rootMethods, o operation) (string, error) { return "", r.Mkdir(o.a, o.mode) },
	"MkdirAll":  func(r rootMethods, o operation) (string, error) { return "", r.MkdirAll(o.a, o.mode|0o700) },
	"Remove":    func(r rootMethods, o operation) (string, error) { return "", r.Remove(o.a) },
	"RemoveAll": func(r rootMethods, o operation) (string, error) { return "", r.RemoveAll(o.a) },
	"WriteFile": func(r rootMethods, o operation) (string, error) { return "", r.WriteFile(o.a, []byte(o.b), o.mode) },
	"Readlink":  func(r rootMethods, o operation) (string, error) { return r.Readlink(o.a) },
	"ReadFile": func(r rootMethods, o operation) (string, error) {
		data, err := r.ReadFile(o.a)
		return string(data), err
	},
	"Stat":  func(r rootMethods, o operation) (string, error) { return describe(r.Stat(o.a)) },
	"Lstat": func(r rootMethods, o operation) (string, error) { return describe(r.Lstat(o.a)) },
	"OpenFile": func(r rootMethods, o operation) (string, error) {
		f, err := r.OpenFile(o.a, o.flag, o.mode)
		return use(f, err, o.b)
	},
	"Create": func(r rootMethods, o operation) (string, error) {
		f, err := r.Create(o.a)
		return use(f, err, o.b)
	},
}

var epoch = time.Unix(1, 0)

func describe(info fs.FileInfo, err error) (string, error) {
	if err != nil {
		return "", err
	}
	size := info.Size()
	if info.IsDir() {
		size = 0 // differs by file system and history
	}
	return fmt.Sprint(info.Name(), " ", info.Mode(), " ", size, " ", info.Sys().(*syscall.Stat_t).Nlink), nil
}

// use writes to an open file, reads from it, lists it, and closes it.
func use(f *os.File, err error, data string) (string, error) {
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, werr := f.WriteString(data)
	_, serr := f.Seek(0, io.SeekStart)
	content, rerr := io.ReadAll(f)
	names, derr := f.Readdirnames(-1)
	return fmt.Sprint(errorClass(werr), errorClass(serr), errorClass(rerr), string(content), len(names), errorClass(derr)), nil
}

// errorClass is what of an error must agree: ours by its code, os.Root's escape
// by its text, which is all there is, and the rest by the errno.
func errorClass(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrEscape) || strings.Contains(err.Error(), "path escapes from parent"):
		return "escape"
	case Code(err) == "name" && !errors.As(err, &errno):
		return "name"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return Code(err)
}

// sameStandardErrors tells whether a and b match the same errors of package fs.
// An absolute name matches fs.ErrInvalid beside ErrEscape, and one that is too long
// beside its errno.
func sameStandardErrors(a, b error) bool {
	for _, target := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, fs.ErrClosed} {
		if target == fs.ErrInvalid && (errors.Is(b, ErrEscape) || errors.Is(b, syscall.ENAMETOOLONG)) {
			continue
		}
		if errors.Is(a, target) != errors.Is(b, target) {
			return false
		}
	}
	return true
}

// anyName is a spelling made of few components, so that names meet.
var anyName = rapid.Custom(func(t *rapid.T) string {
	if rapid.IntRange(0, 40).Draw(t, "odd") == 0 {
		return rapid.SampledFrom([]string{"", ".", "..", "/", "/a", "./", "a\x00b", "../outside/secret", "../root/a", strings.Repeat("n", 300)}).Draw(t, "name")
	}
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "a", "b", "c", "d", "..", "."}), 1, 4).Draw(t, "parts")
	separator := rapid.SampledFrom([]string{"/", "/", "/", "//", "/./"}).Draw(t, "separator")
	end := rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", "", "", "", "", "/", "/.", "//"}).Draw(t, "end")
	return strings.Join(parts, separator) + end
})

// anyTarget is the text of a link: mostly something inside, in every form.
var anyTarget = rapid.Custom(func(t *rapid.T) string {
	if rapid.IntRange(0, 7).Draw(t, "outside") == 0 {
		return rapid.SampledFrom([]string{"../outside", "../outside/secret", "../../outside", "/proc", "/nonexistent", "..", ".", "../root", "a/../../outside"}).Draw(t, "target")
	}
	return anyName.Draw(t, "target")
})

var anyOperation = rapid.Custom(func(t *rapid.T) operation {
	o := operation{
		verb: rapid.SampledFrom([]string{"Mkdir", "Mkdir", "WriteFile", "WriteFile", "Symlink", "Symlink", "Chmod", "Chown", "Lchown", "Chtimes",
			"Link", "Rename", "Rename", "MkdirAll", "Remove", "RemoveAll", "Readlink", "ReadFile", "Stat", "Lstat", "OpenFile", "OpenFile", "Create"}).Draw(t, "verb"),
		a:    anyName.Draw(t, "a"),
		mode: rapid.SampledFrom([]fs.FileMode{0o600, 0o644, 0o700, 0o755, 0o777}).Draw(t, "mode"),
	}
	if rapid.IntRange(0, 30).Draw(t, "special mode") == 0 {
		o.mode |= rapid.SampledFrom([]fs.FileMode{fs.ModeSetuid, fs.ModeSticky, fs.ModeDir}).Draw(t, "bit")
	}
	switch o.verb {
	case "Symlink":
		o.b = anyTarget.Draw(t, "b")
	case "Link", "Rename":
		o.b = anyName.Draw(t, "b")
	case "OpenFile":
		o.flag = rapid.SampledFrom([]int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR}).Draw(t, "access")
		for _, flag := range []int{os.O_CREATE, os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_SYNC} {
			if rapid.Bool().Draw(t, "flag") {
				o.flag |= flag
			}
		}
		fallthrough
	default:
		o.b = rapid.SampledFrom([]string{"", "x", "longer"}).Draw(t, "data")
	}
	return o
})
