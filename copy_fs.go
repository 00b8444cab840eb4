package caproot

import (
	"context"
	"io/fs"
)

// CopyFS copies fsys into the directory dir, as os.CopyFS does: an existing
// file is an error that matches fs.ErrExist, the first error ends the copy, and
// symbolic links are made if fsys can read them, else fs.ErrInvalid. Each file is
// published whole. Files get mode 0644 and the execute bits of the source,
// directories 0755, both cut by Policy.Modes.
//
// fsys is the caller's own. Use CopyTree to copy from another Root.
func (r *Root) CopyFS(dir string, fsys fs.FS) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := dir
		if name != "." {
			to = dir + "/" + name
		}
		switch {
		case d.IsDir():
			return r.MkdirAll(to, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(fsys, name)
			if err != nil {
				return err
			}
			return r.Symlink(target, to)
		case !d.Type().IsRegular():
			return &fs.PathError{Op: "copyfs", Path: name, Err: ErrSpecial}
		}
		return r.copyFrom(fsys, name, to)
	})
}

func (r *Root) copyFrom(fsys fs.FS, name, to string) error {
	f, err := fsys.Open(name)
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
