package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

var verbCopyFS = verb{name: "copyfs", needs: Mkdir, changes: true}

// CopyFS copies fsys into the directory dir, as os.CopyFS does: an existing
// file is an error that matches fs.ErrExist, the first error ends the copy, and
// symbolic links are made if fsys can read them, else fs.ErrInvalid. Each file is
// published whole. Files get mode 0644 and the execute bits of the source,
// directories 0755, both cut by Policy.Modes.
//
// What vanishes from fsys meanwhile is passed over, and stages (Sweep tells their
// form) are left out. It returns ErrName when dir is empty, and when dir is inside
// the directory that fsys is of: before anything is made if fsys opens it as an
// *os.File or a File, as os.DirFS, os.Root and Root do, or tells by its FileInfo that
// it is in r; else when the copy comes to dir, if fsys tells it then.
//
// fsys is the caller's own. Use CopyTree to copy from another Root. It needs the
// right Mkdir. The copy is one call in flight: fsys must not call Close or Wait on r.
func (r *Root) CopyFS(dir string, fsys fs.FS) error {
	var c call
	if err := c.begin(r, &verbCopyFS, dir); err != nil {
		return err
	}
	defer c.end()
	if fsys == nil {
		return c.fail(errNoSource)
	}
	if top, known, proved := r.topOf(fsys); known {
		if err := r.notBelow(dir, top, proved); err != nil {
			return c.fail(err)
		}
	}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		to := dir
		if name != "." {
			to = dir + "/" + name
		}
		switch {
		case name != "." && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case isStageName(d.Name()) && d.IsDir():
			return fs.SkipDir
		case isStageName(d.Name()):
			return nil
		case d.IsDir():
			return r.copyDir(fsys, name, to, dir)
		case d.Type()&fs.ModeSymlink != 0:
			return r.copyLink(fsys, name, to)
		case !d.Type().IsRegular():
			return wrapped(name, ErrSpecial)
		}
		return r.copyFrom(fsys, name, to)
	})
	c.note(err) // as it is: it names the entry that failed
	return err
}

// topOf has the numbers of the directory that fsys is of. They are proved by one
// that is open, which nobody has who may not know them.
func (r *Root) topOf(fsys fs.FS) (top [2]uint64, known, proved bool) {
	f, err := fsys.Open(".")
	if err != nil {
		return top, false, false
	}
	defer f.Close()
	if f, isFile := f.(*os.File); isFile { // whose FileInfo has no numbers on Windows
		c := call{r: r}
		st, err := c.statFile(f)
		return [2]uint64{st.dev, st.ino}, err == nil, true
	}
	info, err := f.Stat()
	if err != nil {
		return top, false, false
	}
	_, proved = f.(*File)
	top, known = numbers(info)
	return top, known, proved
}

// numbersOf are those of the object of fsys, if it tells them.
func numbersOf(fsys fs.FS, name string) (n [2]uint64, known bool) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return n, false
	}
	return numbers(info)
}

// wrapped names what a CopyFS failed at.
func wrapped(name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: verbCopyFS.name, Path: name, Err: badName(err)}
}

func (r *Root) copyDir(fsys fs.FS, name, to, dir string) error {
	if name == "." {
		return wrapped(dir, r.mkdirPart(to, 0o755))
	}
	// dir may be mounted in fsys, or have been moved there.
	there, err := r.numbersPart(dir)
	if err == nil {
		if mine, known := numbersOf(fsys, name); known && mine == there {
			err = errNested
		}
	}
	if err != nil {
		return wrapped(dir, err)
	}
	return r.MkdirAll(to, 0o755)
}

func (r *Root) copyLink(fsys fs.FS, name, to string) error {
	target, err := fs.ReadLink(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Symlink(target, to)
}

func (r *Root) copyFrom(fsys fs.FS, name, to string) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := (0o644 | info.Mode().Perm()&0o111) & r.policy.Modes
	_, err = r.PutFrom(context.Background(), to, f, PutOptions{Mode: mode, NoReplace: true})
	return err
}
