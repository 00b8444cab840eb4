package caproot

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openPlaced opens as open does, but from a place, so that a grant knows the
// names and directories that led there and can decide before anything changes.
func (c *call) openPlaced(how openHow, perm fs.FileMode) (handle, error) {
	for range maxRaces {
		c.leavePlace()
		c.judged = fileNumber{}
		err := c.toObject()
		if c.g != nil {
			c.g.found = err == nil
		}
		if err != nil {
			return noHandle, err
		}
		if c.shape.MustDir {
			how |= directoryOnly
		}
		h, err := c.openPinned(how, perm)
		if err != errFollowed {
			return h, err
		}
	}
	return noHandle, ErrUnstable
}

// openPinned opens the leaf of the place in two steps: a handle for resolution
// only, on which everything is decided, and then the object it is of. It answers
// errFollowed when the name was given to another object in between.
func (c *call) openPinned(how openHow, perm fs.FileMode) (handle, error) {
	changes := how&(forWrite|creating|truncating) != 0
	object, err := c.openLeaf(pathOnly)
	if errors.Is(err, fs.ErrNotExist) && how&creating != 0 {
		return c.openNew(how, perm)
	}
	if err != nil {
		return noHandle, err
	}
	st, err := c.r.sys.stat(object, "", false)
	if err == nil {
		err = c.admitPinned(&st, how)
	}
	if err == nil {
		_, err = c.positionOf(object)
	}
	if err == nil && how&pathOnly != 0 {
		return object, nil
	}
	defer c.r.sys.close(object)
	if err == nil && changes {
		c.judge(&st)
		err = c.permit(StepOpen, 0)
	}
	if err != nil {
		return noHandle, err
	}
	h, err := c.r.sys.open(c.dir, c.leaf, how&^(followLeaf|creating), perm)
	if errors.Is(err, fs.ErrNotExist) || err != nil && maybeLink(err) {
		return noHandle, errFollowed
	}
	if err != nil {
		return noHandle, err
	}
	now, err := c.r.sys.stat(h, "", false)
	if err == nil && !now.sameNumbers(&st) {
		err = errFollowed
	}
	if err != nil {
		c.r.sys.close(h)
		return noHandle, err
	}
	return h, nil
}

// admitPinned decides on what an open has found under the name.
func (c *call) admitPinned(st *status, how openHow) error {
	switch {
	case st.isLink() && how&followLeaf != 0:
		return errFollowed // it was none when the place was found
	case c.fresh:
		return syscall.EEXIST
	case how&creating != 0 && how&exclusive != 0 && !st.isLink():
		if how&directoryOnly != 0 || c.leaf == "." {
			return syscall.EISDIR // as in toTarget
		}
		return syscall.EEXIST
	case st.isLink() && (how&pathOnly == 0 || how&directoryOnly != 0):
		return c.refusedLink()
	case how&directoryOnly != 0 && !st.isDir():
		return errNotDir
	case how&(forWrite|creating) != 0 && st.isDir():
		return syscall.EISDIR
	}
	return nil
}

// openNew makes the file that the name leads to, and never opens another one.
func (c *call) openNew(how openHow, perm fs.FileMode) (handle, error) {
	if how&directoryOnly != 0 {
		return noHandle, syscall.EISDIR
	}
	if err := c.admitNew(); err != nil {
		return noHandle, err
	}
	if err := c.permit(StepOpen, 1); err != nil {
		return noHandle, err
	}
	h, err := c.r.sys.open(c.dir, c.leaf, how&^followLeaf|exclusive, perm)
	c.g.made = err == nil
	c.settleFile(c.g.made)
	if errors.Is(err, fs.ErrExist) && how&exclusive == 0 {
		return noHandle, errFollowed
	}
	return h, err
}

// enterPlace makes a directory, opened at the place, the place of what is in it.
func (c *call) enterPlace(dir handle) error {
	if c.g != nil {
		at, err := c.positionOf(dir)
		if err != nil {
			return err
		}
		c.parent = c.reached()
		c.leavePlace()
		c.g.at = at
	}
	c.dir = dir
	return nil
}

// admitDescriptor refuses to hand out a descriptor by which the holder could do
// what the grant denies, or what it wants to be asked about or to count.
func (c *call) admitDescriptor() error {
	if c.r.deny != nil || c.r.tenure.meters() {
		return because(ErrPolicy, "a descriptor would go around the grant")
	}
	return nil
}

// admitExport is admitDescriptor for an *os.File: nobody counts what is written
// to it, and one of a directory is what Root.File gives.
func (c *call) admitExport(isDir bool) error {
	if c.verb.changes && c.r.tenure.ledger != nil {
		return because(ErrPolicy, "an *os.File would go around the grant, OpenView does not")
	}
	if !isDir {
		return nil
	}
	if c.r.policy.Rights&Share == 0 {
		return &detail{ErrPolicy, "an *os.File of a directory needs Share; OpenView, ReadDir, Walk and OpenRoot do not", syscall.EISDIR}
	}
	return c.admitDescriptor()
}

func (c *call) handOut(f *os.File, err error) (*os.File, error) {
	if err == nil {
		c.gives(f)
	}
	return f, err
}
