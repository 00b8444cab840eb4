package caproot

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// errNested is the answer for a copy into its own source, which would have no end.
// It matches EINVAL, as that of rename(2).
var errNested error = &detail{ErrName, "the copy would be inside its own source", syscall.EINVAL}

// intoItself gives err, why an object did not get the place to, its cause where that
// is the directory itself, or below it: rename(2) says EINVAL, as for a flag that it
// does not know, and Windows that the directory is in use.
func intoItself(to *call, st *status, err error) error {
	var system syscall.Errno
	if !st.isDir() || !errors.As(err, &system) || errors.Is(err, fs.ErrExist) || !isBelow(to.r.sys, to.dir, [2]uint64{st.dev, st.ino}) {
		return err
	}
	return &detail{ErrName, "the new name is inside the directory that is moved", err}
}

// maxAbove bounds the way up; a path of 4096 bytes has 2048 components.
const maxAbove = 4096

// isBelow reports whether dir is the directory with these numbers or one below
// it, also by directories above the root. Where it cannot go up it knows no more.
func isBelow(sys system, dir handle, top [2]uint64) bool {
	return isBetween(sys, dir, top, [2]uint64{})
}

// isBetween is isBelow up to the directory last.
func isBetween(sys system, dir handle, top, last [2]uint64) bool {
	here, owned := dir, false
	defer func() {
		if owned {
			sys.close(here)
		}
	}()
	var below [2]uint64
	for range maxAbove {
		st, err := sys.stat(here, "", false)
		now := [2]uint64{st.dev, st.ino}
		if err != nil || now == below {
			return false
		}
		if now == top {
			return true
		}
		if now == last {
			return false
		}
		up, err := above(sys, here)
		if err != nil {
			return false
		}
		if owned {
			sys.close(here)
		}
		here, owned, below = up, true, now
	}
	return false
}

// above opens the directory above dir, to be looked at only. Windows has no entry for
// it, but tells the path of dir.
func above(sys system, dir handle) (handle, error) {
	h, err := sys.open(dir, "..", pathOnly|directoryOnly, 0)
	if err == nil {
		return h, nil
	}
	path, ok := pathOf(dir)
	if !ok {
		return noHandle, err
	}
	return openPath(filepath.Dir(path))
}

// notBelow returns errNested when the directory name of r, or the nearest one
// above that is there, is the one with these numbers or below it. Numbers that
// somebody only says are compared up to the root: beyond, the answer would tell of
// the outside.
func (r *Root) notBelow(name string, top [2]uint64, proved bool) error {
	var c call
	if err := c.beginQuiet(r, &verbMkdirAll, name); err != nil {
		return cause(err)
	}
	defer c.end()
	w := c.walker()
	defer w.close()
	w.rest = c.shape.Path
	for {
		leaf, err := w.toLeaf()
		if err == nil && leaf != "" {
			err = w.enter(leaf)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || leaf == "" {
			break
		}
	}
	last := [2]uint64{r.dev, r.ino}
	if proved {
		last = [2]uint64{}
	}
	if isBetween(r.sys, w.here(), top, last) {
		return errNested
	}
	return nil
}

// startOfCopy has the numbers of the directory that a copy starts from. Those who
// observe r are told only if there will be no walk.
func (r *Root) startOfCopy(name string) (n [2]uint64, err error) {
	var c call
	if err := c.begin(r, &verbWalk, name); err != nil {
		return n, cause(err)
	}
	defer c.end()
	h, err := c.open(openForList, 0)
	if err != nil {
		c.note(err)
		return n, err
	}
	defer r.sys.close(h)
	st, err := r.sys.stat(h, "", false)
	if c.note(err); err == nil {
		c.hush()
	}
	return [2]uint64{st.dev, st.ino}, err
}
