package caproot

import (
	"errors"
	"io/fs"
	"syscall"
)

// The functions of this file are parts of a copy. Observers are told of the copy,
// and of what it makes below its directory; their errors are bare.

// mkdirPart is MkdirAll of the directory that a copy goes to.
func (r *Root) mkdirPart(name string, perm fs.FileMode) error {
	var c call
	if err := c.beginQuiet(r, &verbMkdirAll, name); err != nil {
		return cause(err)
	}
	defer c.end()
	return c.mkdirAll(perm)
}

// openPart opens that directory as a Root.
func (r *Root) openPart(name string) (*Root, error) {
	var c call
	if err := c.beginQuiet(r, verbOf(name, &verbOpenRoot, &verbReopen), name); err != nil {
		return nil, cause(err)
	}
	defer c.end()
	return c.openRoot()
}

// canonicalPart is the canonical path of that directory.
func (r *Root) canonicalPart(name string) (string, error) {
	var c call
	if err := c.beginQuiet(r, &verbReceipt, name); err != nil {
		return "", cause(err)
	}
	defer c.end()
	receipt, err := c.observe(0)
	return receipt.Path, err
}

// numbersPart has the numbers of that directory.
func (r *Root) numbersPart(name string) (n [2]uint64, err error) {
	var c call
	if err := c.beginQuiet(r, &verbStat, name); err != nil {
		return n, cause(err)
	}
	defer c.end()
	st, err := c.stat()
	return [2]uint64{st.dev, st.ino}, err
}

// mkdirUnlessThere makes a directory. One that is there is neither made nor told.
func (r *Root) mkdirUnlessThere(name string, perm fs.FileMode) (made bool, err error) {
	var c call
	if err := c.begin(r, &verbMkdir, name); err != nil {
		return false, err
	}
	defer c.end()
	if err = c.mkdir(perm); !errors.Is(err, fs.ErrExist) {
		return err == nil, c.fail(err)
	}
	st, err := c.leafStatus()
	switch {
	case err != nil:
	case st.isDir():
		c.hush()
	default:
		err = syscall.ENOTDIR
	}
	return false, c.fail(err)
}

// linkText reads a link of the source, and tells those who observe that.
func (e *Entry) linkText() (target string, st status, err error) {
	in := e.place()
	if err = in.admitLeaf(); err == nil {
		// First, so that a later change of the link is one of what was looked at.
		st, err = e.look()
	}
	if err == nil {
		target, err = e.dir.r.sys.readlink(e.dir.h, e.name)
	}
	err = vanished(err)
	if e.dir.r.tenure.told {
		e.dir.r.report(verbReadlink.name, e.Path(), "", err)
	}
	return target, st, err
}
