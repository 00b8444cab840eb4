package caproot

import (
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

// thereAlready is the answer of Mkdir where a copy goes on: what is there is fs.ErrExist
// and nothing to tell of if it is a directory, and ENOTDIR otherwise.
func (c *call) thereAlready() error {
	st, err := c.leafStatus()
	if err != nil {
		return err
	}
	if !st.isDir() {
		return syscall.ENOTDIR
	}
	c.hush()
	return fs.ErrExist
}

// linkText reads a link of the source, and tells those who observe that. A link that
// will be removed is settled first, as a file is.
func (e *Entry) linkText(settle bool) (target string, st status, err error) {
	in := e.place()
	if err = in.admitLeaf(); err == nil {
		// First, so that a later change of the link is one of what was looked at.
		st, err = e.look()
	}
	if before := st; err == nil && settle && before.waitTick() {
		if st, err = e.look(); err == nil && !(st.sameNumbers(&before) && st.sameContent(&before)) {
			err = errChanging
		}
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
