package caproot

import (
	"errors"
	"io/fs"
)

var (
	verbMkdir    = verb{name: "mkdir", needs: Mkdir, changes: true}
	verbMkdirAll = verb{name: "mkdirall", needs: Mkdir, changes: true, traced: true}
)

// Mkdir makes a directory. perm is cut by the umask and by Policy.Modes.
func (r *Root) Mkdir(name string, perm fs.FileMode) error {
	var c call
	if err := c.begin(r, &verbMkdir, name); err != nil {
		return err
	}
	defer c.end()
	err := c.mkdir(perm)
	if r.fills && errors.Is(err, fs.ErrExist) {
		err = c.thereAlready()
	}
	return c.fail(err)
}

func (c *call) mkdir(perm fs.FileMode) error {
	perm, err := c.creationMode(perm)
	if err == nil {
		err = c.toParent()
	}
	if err != nil {
		return err
	}
	if err = c.permit(StepMkdir, 1); err == nil {
		err = c.r.sys.mkdir(c.dir, c.leaf, perm)
	}
	c.settleSpent(err == nil)
	return err
}

// MkdirAll makes a directory and its missing parents. An existing directory is
// success, whoever made it.
func (r *Root) MkdirAll(name string, perm fs.FileMode) error {
	var c call
	if err := c.begin(r, &verbMkdirAll, name); err != nil {
		return err
	}
	defer c.end()
	return c.fail(c.mkdirAll(perm))
}

func (c *call) mkdirAll(perm fs.FileMode) error {
	r := c.r
	perm, err := c.creationMode(perm)
	if err != nil {
		return err
	}
	if r.beneath != nil && r.deny == nil {
		h, err := r.beneath.openBeneath(r.dir, c.shape.Path, pathOnly|directoryOnly|followLeaf, 0, c.beneathRule())
		if err == nil {
			r.sys.close(h)
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !undecided(err) {
			return err
		}
	}
	w := c.walker()
	w.making, w.makeDir = true, perm
	w.maker = c.maker()
	return c.walkTo(&w, c.shape.Path)
}
