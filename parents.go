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
	return unreserved(name)
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

// toPlace finds the target's place, and makes missing parents when asked.
func (p *publication) toPlace() error {
	c := p.c
	err := c.toTarget()
	if err == nil || !p.o.Parents || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if first, _ := pathsafe.Next(c.shape.Parent, c.r.policy.Names); first == "" {
		return err
	}
	if err := p.admitNew(); err != nil {
		return err
	}
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
