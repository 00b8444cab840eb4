package caproot

import (
	"io/fs"
	"time"
)

var (
	verbChmod   = verb{name: "chmod", needs: Attrib, changes: true}
	verbChown   = verb{name: "chown", needs: Attrib, changes: true}
	verbLchown  = verb{name: "lchown", needs: Attrib, changes: true}
	verbChtimes = verb{name: "chtimes", needs: Attrib, changes: true}
)

// Chmod changes the mode of a file or directory through a handle on it. It
// returns ErrPolicy for bits that Policy.Modes does not have.
func (r *Root) Chmod(name string, mode fs.FileMode) error {
	return r.change(&verbChmod, name, func(c *call, h handle) error {
		mode, err := c.exactMode(mode)
		if err != nil {
			return err
		}
		return r.sys.chmod(h, mode)
	})
}

// Chown changes owner and group; -1 leaves one as it is.
func (r *Root) Chown(name string, uid, gid int) error {
	return r.change(&verbChown, name, func(_ *call, h handle) error { return r.sys.chown(h, uid, gid) })
}

// Chtimes changes the times of access and modification; a zero time leaves one
// as it is.
func (r *Root) Chtimes(name string, atime, mtime time.Time) error {
	return r.change(&verbChtimes, name, func(_ *call, h handle) error { return r.sys.chtimes(h, atime, mtime) })
}

// change applies f to a handle on what name leads to.
func (r *Root) change(v *verb, name string, f func(*call, handle) error) error {
	var c call
	if err := c.begin(r, v, name); err != nil {
		return err
	}
	defer c.end()
	h, err := c.open(pathOnly, 0)
	if err != nil {
		return c.fail(err)
	}
	defer r.sys.close(h)
	return c.fail(c.changeObject(h, f))
}

func (c *call) changeObject(h handle, f func(*call, handle) error) error {
	st, err := c.r.sys.stat(h, "", false)
	if err == nil {
		err = c.notRoot(&st)
	}
	if err == nil {
		err = c.admitChange(&st)
	}
	if err == nil {
		err = c.permitObject(StepAttrib, &st)
	}
	if err != nil {
		return err
	}
	return f(c, h)
}

// Lchown changes owner and group of name itself, be it a link.
func (r *Root) Lchown(name string, uid, gid int) error {
	var c call
	if err := c.begin(r, &verbLchown, name); err != nil {
		return err
	}
	defer c.end()
	return c.fail(c.lchown(uid, gid))
}

func (c *call) lchown(uid, gid int) error {
	if err := c.toParent(); err != nil {
		return err
	}
	h, err := c.openLeaf(pathOnly)
	if err != nil {
		return err
	}
	defer c.r.sys.close(h)
	st, err := c.r.sys.stat(h, "", false)
	switch {
	case err != nil:
	case c.shape.MustDir && st.isLink():
		err = ErrSymlink
	case c.shape.MustDir && !st.isDir():
		err = errNotDir
	case !st.isLink():
		err = c.admitChange(&st)
	}
	if err == nil {
		err = c.permitObject(StepAttrib, &st)
	}
	if err != nil {
		return err
	}
	return c.r.sys.chown(h, uid, gid)
}

// notRoot refuses the root's own directory: its attributes belong to whoever
// handed it out.
func (c *call) notRoot(st *status) error {
	if st.dev == c.r.dev && st.ino == c.r.ino {
		return because(ErrName, "names the root itself")
	}
	return nil
}

// creationMode is a mode for a new object: type bits of a mode that came from
// a Stat are dropped, the policy's mask works as a umask.
func (c *call) creationMode(perm fs.FileMode) (fs.FileMode, error) {
	if perm&specialModes != 0 {
		return 0, because(ErrPolicy, "setuid, setgid and sticky are set by Chmod only")
	}
	return perm & fs.ModePerm & c.r.policy.Modes, nil
}

// exactMode is a mode that is asked for exactly; type bits are dropped.
func (c *call) exactMode(mode fs.FileMode) (fs.FileMode, error) {
	mode &= allModes
	if mode&^c.r.policy.Modes != 0 {
		return 0, because(ErrPolicy, "mode "+mode.String()+" is not allowed")
	}
	return mode, nil
}

// setMode changes the mode through the handle and reads it back: a file system
// without modes refuses the change, or takes it and does nothing.
func setMode(sys system, h handle, have, want fs.FileMode) error {
	if sameMode(have, want) {
		return nil
	}
	if err := sys.chmod(h, want); err != nil {
		return err
	}
	st, err := sys.stat(h, "", false)
	if err == nil && !sameMode(st.mode&allModes, want) {
		err = because(ErrUnsupported, "the file system did not take mode "+want.String())
	}
	return err
}
