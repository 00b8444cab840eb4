package caproot

import (
	"errors"
	"io/fs"
	"syscall"
)

var verbTarget = verb{name: "target", needs: List, changes: true, traced: true}

// Target returns the canonical path below r of the file that Put would publish
// under name: two spellings of one file are one target. Its directory must exist,
// the file need not. Under LinksFollow a link in the last component leads on;
// under another rule it is ErrSymlink. A directory is EISDIR, and ErrSpecial what
// Put refuses so.
//
// It tells how things were: look again once nobody else can change them.
func (r *Root) Target(name string) (canonical string, err error) {
	var c call
	if err := c.begin(r, &verbTarget, name); err != nil {
		return "", err
	}
	defer c.end()
	err = c.toTarget()
	if err == nil {
		err = c.admitTarget()
	}
	if err != nil {
		return "", c.fail(err)
	}
	return c.canonical(), nil
}

// admitTarget refuses what cannot be published over.
func (c *call) admitTarget() error {
	st, err := c.r.sys.stat(c.dir, c.leaf, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return st.replaceable()
}

// replaceable refuses what no file is put in place of.
func (s *status) replaceable() error {
	switch {
	case s.isLink():
		return ErrSymlink
	case s.isDir():
		return syscall.EISDIR
	case s.isSpecial():
		return ErrSpecial
	}
	return nil
}

// toTarget finds the place of the file that a verb makes or changes: the name
// itself, or under LinksFollow what the name, a link, leads to. The leaf may be
// missing. A link that is not followed is left for the verb to see, and what only
// a directory can meet is EISDIR.
func (c *call) toTarget() error {
	err := c.toParent()
	if err == nil {
		err = c.toEnd()
	}
	if err == nil && (c.leaf == "." || c.shape.MustDir) {
		err = syscall.EISDIR
	}
	return err
}

// toObject finds the place of what the whole name leads to, be it a directory,
// for which the leaf may be ".".
func (c *call) toObject() error {
	if leaf := c.shape.Leaf; leaf == "" || leaf == ".." {
		return c.toDirectory()
	}
	if err := c.toParent(); err != nil {
		return err
	}
	return c.toEnd()
}

// toEnd goes on from the name to what it leads to, where links are followed.
func (c *call) toEnd() error {
	if !c.follows() {
		return nil
	}
	st, err := c.r.sys.stat(c.dir, c.leaf, false)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil || !st.isLink():
		return nil
	}
	w := c.walker()
	defer w.close()
	w.rest = c.shape.Path
	for range maxRaces {
		leaf, err := w.toLeaf()
		if err != nil {
			return err
		}
		if leaf == "" {
			return c.settleAt(&w, ".")
		}
		switch err := w.follow(leaf); {
		case err == errNotLink:
			return c.settleAt(&w, leaf)
		case err != nil:
			return err
		}
	}
	return ErrUnstable
}

// settleAt makes leaf, where a walk ended, the place.
func (c *call) settleAt(w *walker, leaf string) error {
	c.leavePlace()
	c.leaf = leaf
	c.shape.MustDir = c.shape.MustDir || w.mustDir
	if err := c.settle(w); err != nil {
		return err
	}
	return c.admitLeaf()
}
