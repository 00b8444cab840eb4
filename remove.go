package caproot

import "github.com/caproot/caproot/identity"

var (
	verbRemove   = verb{name: "remove", needs: Remove, changes: true}
	verbRemoveIf = verb{name: "removeif", needs: Remove, changes: true, traced: true}
)

// Remove removes a file, a link or an empty directory: the named entry itself,
// never what a link leads to.
func (r *Root) Remove(name string) error {
	var c call
	if err := c.begin(r, &verbRemove, name); err != nil {
		return err
	}
	defer c.end()
	err := c.toParent()
	if err != nil {
		return c.fail(err)
	}
	st, err := c.leafStatus()
	if err == nil {
		err = c.permit(StepRemove, 0)
	}
	if err != nil {
		return c.fail(err)
	}
	return c.fail(r.sys.remove(c.dir, c.leaf, st.isDir()))
}

// RemoveIf removes name only if it is the object of the receipt; otherwise it
// returns a *MismatchError, which matches ErrChanged.
//
// RACE: POSIX has no unlink by handle. Between the comparison and the removal,
// one system call apart, another process can give the name to another object.
// Callers that share a lock on the object exclude that.
func (r *Root) RemoveIf(name string, want identity.Receipt) error {
	var c call
	if err := c.begin(r, &verbRemoveIf, name); err != nil {
		return err
	}
	defer c.end()
	return c.fail(c.removeIf(&want))
}

func (c *call) removeIf(want *identity.Receipt) error {
	if err := c.toParent(); err != nil {
		return err
	}
	h, err := c.openLeaf(pathOnly)
	if err != nil {
		return err
	}
	defer c.r.sys.close(h)
	if err := c.expect(want, h, c.leaf); err != nil {
		return err
	}
	mine, err := c.r.sys.stat(h, "", false)
	if err != nil {
		return err
	}
	c.judge(&mine)
	if err := c.permit(StepRemove, 0); err != nil {
		return err
	}
	named, err := c.leafStatus()
	if err != nil {
		return err
	}
	if !named.sameNumbers(&mine) {
		return because(ErrChanged, "replaced while it was compared")
	}
	return c.r.sys.remove(c.dir, c.leaf, mine.isDir())
}
