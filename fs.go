package caproot

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// FS returns the root as an fs.FS, under the root's rules. It implements
// fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.ReadLinkFS.
func (r *Root) FS() fs.FS { return rootFS{r} }

type rootFS struct{ r *Root }

var _ interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
} = rootFS{}

// valid keeps the spelling rules of package fs, which are narrower than a
// Root's: only "/" separates, so a name with another separator names nothing.
func (f rootFS) valid(v *verb, name string) error {
	if _, err := filepath.Localize(name); err == nil {
		return nil
	}
	return f.r.refuse(v, name, fs.ErrInvalid)
}

func (f rootFS) Open(name string) (fs.File, error) {
	if err := f.valid(&verbViewRead, name); err != nil {
		return nil, err
	}
	file, err := f.r.OpenView(name, 0, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f rootFS) ReadFile(name string) ([]byte, error) {
	if err := f.valid(&verbRead, name); err != nil {
		return nil, err
	}
	return f.r.ReadFile(name)
}

func (f rootFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.valid(&verbReadDir, name); err != nil {
		return nil, err
	}
	return f.r.ReadDir(name)
}

func (f rootFS) Stat(name string) (fs.FileInfo, error) {
	if err := f.valid(&verbStat, name); err != nil {
		return nil, err
	}
	return f.r.Stat(name)
}

func (f rootFS) Lstat(name string) (fs.FileInfo, error) {
	if err := f.valid(&verbLstat, name); err != nil {
		return nil, err
	}
	return f.r.Lstat(name)
}

func (f rootFS) ReadLink(name string) (string, error) {
	if err := f.valid(&verbReadlink, name); err != nil {
		return "", err
	}
	target, err := f.r.Readlink(name)
	if errors.Is(err, ErrName) {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return target, err
}
