package caproot

import (
	"errors"
	"io/fs"
)

// ascend removes the directory that is done and goes on in its parent.
func (e *emptying) ascend() {
	n := len(e.levels) - 1
	done := e.levels[n]
	parent, up := e.base, (*emptyLevel)(nil)
	if n > 0 {
		up = e.levels[n-1]
		if err := e.regain(up, done.dir); err != nil {
			// The directories above were let go and are only to be found on this way.
			e.keep(up.at.path(), err)
			e.unwind()
			return
		}
		parent = up.dir
	}
	if parent != noHandle && !e.retire(parent, up, done) {
		return
	}
	e.c.r.sys.close(done.dir)
	e.levels = e.levels[:n]
}

// retire removes an empty directory from its parent. It reports false when it
// is not empty after all.
func (e *emptying) retire(parent handle, up, done *emptyLevel) bool {
	name := done.at.name
	if len(done.stuck) > 0 {
		if up != nil {
			up.mark(name)
		}
		return true
	}
	err := e.stillNamed(parent, done)
	if err == nil && e.afford() {
		if up == nil {
			up = &emptyLevel{at: done.at.up, dir: parent, eased: true, denied: e.position()}
		}
		err = e.unlinkEmptied(up, name)
	}
	switch {
	case err == nil:
	case notEmpty(err) && e.rewind(done):
		return false
	case errors.Is(err, fs.ErrNotExist):
		e.gone++
	default:
		up.mark(name)
		e.keep(done.at.path(), err)
	}
	return true
}

// unlinkEmptied removes a directory that was there a moment ago.
func (e *emptying) unlinkEmptied(up *emptyLevel, name string) error {
	err := e.unlink(up, name, true)
	if err != nil {
		e.spent.Add(-1)
	}
	if maybeLink(err) {
		return &detail{ErrChanged, "directory replaced while it was emptied", err}
	}
	return err
}

// stillNamed sees that the directory's name is still its own. Only a directory
// without any name has vanished.
func (e *emptying) stillNamed(parent handle, done *emptyLevel) error {
	sys := e.c.r.sys
	now, err := sys.stat(parent, done.at.name, false)
	if err == nil && !now.sameNumbers(&done.st) {
		return because(ErrChanged, "directory replaced while it was emptied")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if mine, merr := sys.stat(done.dir, "", false); merr != nil || mine.nlink > 0 {
		return because(ErrChanged, "directory moved while it was emptied")
	}
	return err
}

// regain opens a directory that was let go, as the parent of its child or by the
// names that led to it, and in either case only if it is the same.
func (e *emptying) regain(l *emptyLevel, child handle) error {
	if l.dir != noHandle {
		return nil
	}
	h, err := e.c.r.sys.open(child, "..", openForList, 0)
	if err == nil {
		err = e.same(h, l)
	}
	if err != nil {
		if h, err = e.reopen(l.at); err == nil {
			err = e.same(h, l)
		}
	}
	if err != nil {
		// Not wrapped: an ENOENT of the way must not pass for an absent name.
		return because(ErrChanged, "a directory was moved while it was emptied: "+err.Error())
	}
	l.dir = h
	return nil
}

// same closes an open directory that is not the one that was let go, whose
// number may belong to another by now.
func (e *emptying) same(h handle, l *emptyLevel) error {
	st, err := e.c.r.sys.stat(h, "", true)
	if err == nil && !st.sameObject(&l.st) {
		err = ErrChanged
	}
	if err != nil {
		e.c.r.sys.close(h)
	}
	return err
}

// reopen opens a directory of the tree by its names, none of them a link.
func (e *emptying) reopen(at *trail) (handle, error) {
	sys := e.c.r.sys
	names := at.below(e.top)
	here := e.c.dir
	for i, name := range names {
		var h handle
		var err error
		if i < len(names)-1 {
			h, err = sys.openDir(here, name)
		} else {
			h, err = sys.open(here, name, openForList, 0)
		}
		if here != e.c.dir {
			sys.close(here)
		}
		if err != nil {
			return noHandle, err
		}
		here = h
	}
	return here, nil
}
