package caproot

import (
	"errors"
	"io/fs"
	"syscall"
)

// toTarget finds the place of the object that a verb with a receipt acts on:
// the name itself, or under LinksFollow what the name, a link, leads to. The
// leaf may be missing. A link that is not followed is left for the verb to see.
func (c *call) toTarget() error {
	if err := c.toParent(); err != nil {
		return err
	}
	if c.links() < LinksFollow || c.noFollow {
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
			return syscall.EISDIR
		}
		switch err := w.follow(leaf); {
		case err == errNotLink:
			if w.mustDir && c.verb.changes {
				return syscall.EISDIR // the verbs that change here make files
			}
			c.leavePlace()
			c.leaf = leaf
			c.shape.MustDir = c.shape.MustDir || w.mustDir
			if err := c.settle(&w); err != nil {
				return err
			}
			return c.admitLeaf()
		case err != nil:
			return err
		}
	}
	return ErrUnstable
}
