package caproot

import (
	"errors"
	"io/fs"
	"syscall"
)

// emptyLevel is a directory that is being emptied.
type emptyLevel struct {
	at      *trail
	dir     handle // noHandle when let go
	st      status
	passes  int
	seen    bool // something since the last rewind
	stuck   map[string]bool
	pending []direntry
	gifts   []*gift
	eased   bool // got the owner's permissions
	denied  denyAt
}

// emptying removes depth first, without recursion. It holds the last maxHeld
// directories of its way; one that was let go is found again as the parent of
// its child, and accepted only if it is the same.
type emptying struct {
	*removal
	base    handle // directory that the first level is in; noHandle for a gift
	levels  []*emptyLevel
	scratch []byte
	removed int64
	gone    int64
}

// empty works until its levels are done or the removal is over.
func (e *emptying) empty() {
	defer func() { e.count(e.removed, e.gone) }()
	for len(e.levels) > 0 && !e.over.Load() {
		top := e.levels[len(e.levels)-1]
		if len(top.pending) > 0 {
			entry := top.pending[0]
			top.pending = top.pending[1:]
			if err := e.removeEntry(top, entry); err != nil {
				e.stick(top, entry.name, err)
			}
			continue
		}
		if !e.refill(top) && !e.takeBack(top) {
			e.ascend()
		}
	}
}

// removeEntry unlinks what is no directory and descends into what is. The
// listing's type is only a hint: the kernel decides by its answer.
func (e *emptying) removeEntry(top *emptyLevel, entry direntry) error {
	isDir := entry.mode.IsDir()
	for range maxRaces {
		if !isDir {
			if !e.afford() {
				return nil
			}
			err := e.unlink(top, entry.name, false)
			if err == nil {
				return nil
			}
			e.spent.Add(-1)
			if err != syscall.EISDIR && !(err == syscall.EPERM && e.isDir(top, entry.name)) {
				return err
			}
		}
		err := e.descend(top, entry.name)
		if errors.Is(err, fs.ErrNotExist) {
			e.gone++
			return nil
		}
		if err == nil || !maybeLink(err) {
			return err
		}
		isDir = false
	}
	return ErrUnstable
}

// isDir tells what EPERM of unlink means, which is EISDIR's name in POSIX.
func (e *emptying) isDir(l *emptyLevel, name string) bool {
	st, err := e.c.r.sys.stat(l.dir, name, false)
	return err == nil && st.isDir()
}

// unlink removes a name; one that is gone already is none to worry about,
// because the directory it was in is held open.
func (e *emptying) unlink(l *emptyLevel, name string, isDir bool) error {
	if err := e.permit(l, name); err != nil {
		return err
	}
	if e.only == nil {
		return e.unlinkNow(l, name, isDir)
	}
	went, err := e.only.admit(e.c.r.sys, l.dir, l.at.to(name).below(e.top))
	if err == nil {
		err = e.unlinkNow(l, name, isDir)
	}
	went(err == nil)
	return err
}

func (e *emptying) unlinkNow(l *emptyLevel, name string, isDir bool) error {
	sys := e.c.r.sys
	err := sys.remove(l.dir, name, isDir)
	if errors.Is(err, fs.ErrPermission) && e.ease(l) {
		err = sys.remove(l.dir, name, isDir)
	}
	switch {
	case err == nil:
		e.removed++
	case errors.Is(err, fs.ErrNotExist):
		e.gone++
		return nil
	}
	return err
}

// permit is passed before each removal. It may be called by several workers, so
// it leaves the place of the call alone.
func (e *emptying) permit(l *emptyLevel, name string) error {
	c := e.c
	if c.g == nil {
		return c.r.tenure.holds()
	}
	in := call{r: c.r, verb: c.verb, g: &grantedCall{at: l.denied}, place: place{dir: l.dir, leaf: name, parent: l.at.path()}}
	if err := in.admitLeaf(); err != nil {
		return err
	}
	return in.permit(StepRemove, 0)
}

// admit decides on a directory of the tree that is open as a name in the position in.
func (e *emptying) admit(l *emptyLevel, h handle, in denyAt) (err error) {
	if e.c.r.deny == nil {
		return nil
	}
	at := in.name(l.at.name)
	if err = at.admit(); err == nil {
		l.denied, err = e.c.r.deny.list.object(e.c.r.sys, at, h, &l.st)
	}
	return err
}

// ease gives the owner's permissions to a directory that refuses, once; not
// where somebody would have to be asked about it.
func (e *emptying) ease(l *emptyLevel) bool {
	p := &e.c.r.policy
	if l.eased || e.c.r.tenure.asks || !e.o.Force || p.Rights&Attrib == 0 || p.Modes&0o700 != 0o700 || l.st.mode&0o700 == 0o700 {
		return false
	}
	l.eased = true
	return e.c.r.sys.chmod(l.dir, (l.st.mode&allModes|0o700)&p.Modes) == nil
}

// open opens the directory name in dir, which has the position in, and looks at it.
func (e *emptying) open(dir handle, name string, at *trail, in denyAt) (*emptyLevel, error) {
	sys := e.c.r.sys
	h, err := sys.open(dir, name, openForList, 0)
	l := &emptyLevel{at: at, dir: h}
	if errors.Is(err, fs.ErrPermission) {
		l, err = e.openClosed(dir, name, at, in)
	} else if err == nil {
		l.st, err = sys.stat(h, "", true)
	}
	if err == nil && e.stay && !l.st.onMount(e.mount) {
		err = ErrMount
	}
	if err == nil {
		err = e.admit(l, l.dir, in)
	}
	if err != nil && l != nil && l.dir != noHandle {
		sys.close(l.dir)
	}
	return l, err
}

// openClosed opens a directory that refuses to be listed, after easing it.
func (e *emptying) openClosed(dir handle, name string, at *trail, in denyAt) (*emptyLevel, error) {
	sys := e.c.r.sys
	h, err := sys.openDir(dir, name)
	if err != nil {
		return nil, err
	}
	defer sys.close(h)
	l := &emptyLevel{at: at, dir: h}
	if l.st, err = sys.stat(h, "", true); err == nil && e.stay && !l.st.onMount(e.mount) {
		err = ErrMount
	}
	if err != nil {
		l.dir = noHandle
		return l, err
	}
	if err := e.admit(l, h, in); err != nil {
		l.dir = noHandle
		return l, err
	}
	eased := e.ease(l)
	l.dir = noHandle
	if !eased {
		return l, syscall.EACCES
	}
	l.dir, err = sys.open(h, ".", openForList, 0)
	return l, err
}

// descend makes the directory name in top the last level, or gives it away.
func (e *emptying) descend(top *emptyLevel, name string) error {
	at := top.at.to(name)
	if e.o.MaxDepth > 0 && at.depth >= e.o.MaxDepth {
		return e.shallow(top, name)
	}
	if at.depth >= maxTreeDepth {
		return ErrTooLarge
	}
	l, err := e.open(top.dir, name, at, top.denied)
	if errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrPolicy) && e.afford() {
		// An empty directory that cannot be listed can still be removed.
		if e.unlink(top, name, true) == nil {
			return nil
		}
		e.spent.Add(-1)
	}
	if err != nil {
		return err
	}
	if e.crew != nil && e.give(top, l) {
		return nil
	}
	e.push(l)
	return nil
}

// push makes l the last level and lets go of the oldest directory when too
// many are held.
func (e *emptying) push(l *emptyLevel) {
	if n := len(e.levels) - maxHeld; n >= 0 && e.levels[n].dir != noHandle {
		e.c.r.sys.close(e.levels[n].dir)
		e.levels[n].dir = noHandle
	}
	e.levels = append(e.levels, l)
}

// shallow removes a directory at the greatest depth, which must be empty.
func (e *emptying) shallow(top *emptyLevel, name string) error {
	if !e.afford() {
		return nil
	}
	err := e.unlink(top, name, true)
	if err != nil {
		e.spent.Add(-1)
	}
	if notEmpty(err) {
		e.finish(because(ErrTooLarge, "deeper than may be removed: "+top.at.to(name).path()))
		return nil
	}
	return err
}

// refill lists more of the directory, and lists it again from the start until
// nothing is found, because a listing that goes on while entries are removed
// may pass some over. It reports whether there is more to remove.
func (e *emptying) refill(top *emptyLevel) bool {
	if e.scratch == nil {
		e.scratch = make([]byte, listBytes)
	}
	for {
		entries, err := e.c.r.sys.list(top.dir, e.scratch)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // it was removed, or replaced: its name will tell
		}
		if err != nil {
			e.stick(top, ".", err)
			return false
		}
		for _, entry := range entries {
			if !top.stuck[entry.name] && !top.given(entry.name) {
				top.pending = append(top.pending, entry)
			}
		}
		if len(top.pending) > 0 {
			top.seen = true
			return true
		}
		if len(entries) == 0 && !(top.seen && e.rewind(top)) {
			return false
		}
	}
}

// rewind begins the listing anew.
func (e *emptying) rewind(l *emptyLevel) bool {
	l.seen, l.pending = false, nil
	if l.passes++; l.passes > maxPasses {
		e.stick(l, ".", ErrUnstable)
		return false
	}
	if _, err := e.c.r.sys.seek(l.dir, 0, 0); err != nil {
		e.stick(l, ".", err)
		return false
	}
	return true
}

func (l *emptyLevel) mark(name string) {
	if l == nil {
		return
	}
	if l.stuck == nil {
		l.stuck = map[string]bool{}
	}
	l.stuck[name] = true
}

// stick reports what stays in a directory; "." is the directory itself.
func (e *emptying) stick(l *emptyLevel, name string, err error) {
	l.mark(name)
	at := l.at
	if name != "." {
		at = at.to(name)
	}
	e.keep(at.path(), err)
}

func (e *emptying) unwind() {
	for _, l := range e.levels {
		if l.dir != noHandle {
			e.c.r.sys.close(l.dir)
		}
	}
	e.levels = nil
}
