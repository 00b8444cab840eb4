package caproot

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/caproot/caproot/pathsafe"
)

// admitMade decides on the name of a directory about to be made.
func (w *walker) admitMade(name string) error {
	if err := pathsafe.Component(name, w.profile); err != nil {
		return nameError(err)
	}
	if err := unreserved(name); err != nil {
		return err
	}
	return w.roomFor(name)
}

// leastRoom is the length in bytes up to which no file system is asked whether it
// has room for a name: eCryptfs holds 143. One that holds less, as minix with 14 to
// 60 (fs/minix/inode.c), refuses when the name is made, with the parents there.
const leastRoom = 143

// roomFor returns an error if the file system has no room for a name that is
// going to be made below a directory about to be made, or the budget none for the
// directories: a refusal later would leave the directory. How many directories a
// path with ".." needs is not known before.
func (w *walker) roomFor(name string) error {
	dirs, climbs := int64(0), false
	for rest := w.rest; name != ""; name, rest = pathsafe.Next(rest, w.profile) {
		if err := w.hasRoom(name); err != nil {
			return err
		}
		dirs++
		climbs = climbs || name == ".."
	}
	if err := w.hasRoom(w.goal); err != nil || w.maker == nil || climbs {
		return err
	}
	return w.maker.affords(dirs)
}

// hasRoom asks in the directory where the walk stands: what is made below it is on
// the same file system.
func (w *walker) hasRoom(name string) error {
	if len(name) <= leastRoom {
		return nil
	}
	if _, err := w.sys.stat(w.here(), name, false); err == syscall.ENAMETOOLONG {
		return err
	}
	return nil
}

// admitFileName decides on the spelling of a file about to be made.
func (c *call) admitFileName() error {
	if c.shape.MustDir {
		return syscall.EISDIR
	}
	if c.r.carries {
		return nil
	}
	return unreserved(c.shape.Leaf)
}

// toPlace finds the target's place, and makes missing parents when asked. It tells
// how many files are to be reserved yet: content of size bytes is paid for before
// a parent is made for it.
func (p *publication) toPlace(size int64) (files int64, err error) {
	c := p.c
	err = c.toTarget()
	if err == nil || !p.o.Parents || !errors.Is(err, fs.ErrNotExist) {
		return 1, err
	}
	if first, _ := pathsafe.Next(c.shape.Parent, c.r.policy.Names); first == "" {
		return 1, err
	}
	if err = p.admitNew(); err == nil {
		err = c.spend(Budget{Bytes: size, Files: 1})
	}
	if err != nil {
		return 0, err
	}
	p.paid = size
	return 0, p.makeParents()
}

func (p *publication) makeParents() (err error) {
	c := p.c
	mode := p.o.ParentMode
	if mode == 0 {
		mode = 0o700
	}
	if mode, err = c.exactMode(mode); err != nil {
		return err
	}
	if c.r.policy.Rights&Mkdir == 0 {
		return because(ErrPolicy, "missing parents need Mkdir")
	}
	w := c.walker()
	w.making, w.makeDir, w.exact, w.durable = true, mode, true, p.o.Durability == DurabilityDir
	c.leaf, w.goal = c.shape.Leaf, c.shape.Leaf
	w.maker = c.maker()
	if err := c.walkTo(&w, c.shape.Parent); err != nil {
		return err
	}
	return c.admitLeaf()
}
