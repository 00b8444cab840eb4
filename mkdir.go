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
	perm, err := c.creationMode(perm)
	if err == nil {
		err = c.toParent()
	}
	if err != nil {
		return c.fail(err)
	}
	if err = c.permit(StepMkdir, 1); err == nil {
		err = r.sys.mkdir(c.dir, c.leaf, perm)
	}
	c.settleSpent(err == nil)
	return c.fail(err)
}

// MkdirAll makes a directory and its missing parents. An existing directory is
// success, whoever made it.
func (r *Root) MkdirAll(name string, perm fs.FileMode) error {
	var c call
	if err := c.begin(r, &verbMkdirAll, name); err != nil {
		return err
	}
	defer c.end()
	perm, err := c.creationMode(perm)
	if err != nil {
		return c.fail(err)
	}
	if r.beneath != nil && r.deny == nil {
		h, err := r.beneath.openBeneath(r.dir, c.shape.Path, pathOnly|directoryOnly|followLeaf, 0, c.beneathRule())
		if err == nil {
			r.sys.close(h)
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !undecided(err) {
			return c.fail(err)
		}
	}
	w := c.walker()
	w.making, w.makeDir = true, perm
	w.maker = c.maker()
	return c.fail(c.walkTo(&w, c.shape.Path))
}
