package caproot

import (
	"io/fs"
	"os"
	"path"
	"time"
)

// fileInfo is what Stat and its kin answer.
type fileInfo struct {
	name string
	st   status
}

func newFileInfo(name string, st status) fs.FileInfo {
	return &fileInfo{name: path.Base(name), st: st}
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.st.size }
func (i *fileInfo) Mode() fs.FileMode  { return i.st.mode }
func (i *fileInfo) ModTime() time.Time { return i.st.mtime.time() }
func (i *fileInfo) IsDir() bool        { return i.st.isDir() }
func (i *fileInfo) Sys() any           { return i.st.sys() }

// SameFile reports whether a and b, from this package or from package os,
// describe one file, as os.SameFile does for the latter alone: it compares the
// numbers, which is proof only while the file is open. It is false for nil. See
// package identity.
func SameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return false
	}
	x, xok := numbers(a)
	y, yok := numbers(b)
	if xok && yok {
		return x == y
	}
	return os.SameFile(a, b)
}

// dirEntry is an entry of a listing. Its Info finds the directory again and
// answers only if it is the one that was listed.
type dirEntry struct {
	direntry
	dir  string // name of the directory, as the caller spelled it
	root *Root
	id   status // of the directory
}

func (e *dirEntry) Name() string      { return e.name }
func (e *dirEntry) IsDir() bool       { return e.mode.IsDir() }
func (e *dirEntry) Type() fs.FileMode { return e.mode }
func (e *dirEntry) String() string    { return fs.FormatDirEntry(e) }

// Info describes the entry as it is now. It returns ErrChanged when the
// directory's name leads to another directory by now.
func (e *dirEntry) Info() (fs.FileInfo, error) {
	var c call
	if err := c.beginIn(e.root, &verbStat, path.Join(e.dir, e.name), e.dir); err != nil {
		return nil, err
	}
	defer c.end()
	st, err := e.stat(&c)
	if err != nil {
		return nil, c.fail(err)
	}
	return newFileInfo(e.name, st), nil
}

func (e *dirEntry) stat(c *call) (status, error) {
	h, err := c.open(pathOnly|directoryOnly, 0)
	if err != nil {
		return status{}, err
	}
	defer c.r.sys.close(h)
	now, err := c.r.sys.stat(h, "", false)
	if err != nil {
		return status{}, err
	}
	if !now.sameNumbers(&e.id) {
		return status{}, because(ErrChanged, "the listed directory was replaced")
	}
	if err := c.admitEntry(h, e.name); err != nil {
		return status{}, err
	}
	st, err := c.r.sys.stat(h, e.name, true)
	if err == nil && c.r.policy.Mounts == MountsStay && !st.onMount(c.r.mount) {
		err = ErrMount
	}
	return st, err
}
