package caproot

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/caproot/caproot/identity"
)

// copy makes the twin of an entry. Content of files follows later, in turn.
func (t *treeCopy) copy(e Entry) error {
	name := e.Path()[t.start:]
	switch {
	case e.Truncated():
		return errDenied // no limit of this walk marks what it cuts
	case e.IsDir():
		return t.dir(e, name)
	case e.Type()&fs.ModeSymlink != 0:
		return t.symlink(e, name)
	case !e.Type().IsRegular():
		return ErrSpecial
	}
	var c call
	if err := c.begin(e.dir.r, &verbRead, e.Path()); err != nil {
		return err
	}
	defer c.end()
	h, err := c.openEntry(e, forRead|nonBlocking)
	if err != nil {
		err = vanished(err)
		c.note(err)
		return err
	}
	e.dir.users.Add(1)
	f := &copySource{sys: c.r.sys, h: h, limit: c.r.policy.MaxReadBytes, still: e.still}
	err = f.look()
	if err == nil && t.took != nil {
		err = f.settle()
	}
	if c.note(err); err == nil {
		err = t.file(e, f, name)
	}
	if err != nil {
		t.drop(e, f)
	}
	return err
}

func (t *treeCopy) drop(e Entry, f *copySource) {
	f.Close()
	e.dir.release()
}

// still sees that the entry has its name yet. The walk keeps its directory open.
func (e Entry) still(st *status) error {
	now, err := e.dir.r.sys.stat(e.dir.h, e.name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return errVanished
	}
	return sameSource(&now, st, err)
}

// file hands a file, with its source, to a worker, or makes it a name of one
// that was copied before.
func (t *treeCopy) file(e Entry, f *copySource, name string) error {
	first, mine, err := t.firstName(f, name)
	if err != nil {
		return err
	}
	if cap(t.slots) == 1 {
		t.work(e, f, name, first, mine)
		return nil
	}
	t.slots <- struct{}{}
	t.files.Go(func() {
		defer func() { <-t.slots }()
		t.work(e, f, name, first, mine)
	})
	return nil
}

// work copies one file. A copy by one worker is made by the goroutine of the
// caller, who can recover from a panic of what is called back.
func (t *treeCopy) work(e Entry, f *copySource, name string, first *firstName, mine bool) {
	defer t.drop(e, f)
	if mine {
		defer close(first.done) // also when a callback ends the goroutine
	}
	back := false
	defer func() {
		if !back {
			t.left(e.Path(), errExited)
		}
	}()
	err := t.fill(f, name, first, mine)
	back = true
	if mine {
		first.ok = err == nil
	}
	switch {
	case errors.Is(err, errOverQuota):
		t.end(errOverQuota)
	case err != nil && !t.passOver(err):
		t.left(e.Path(), cause(err))
	}
}

func (t *treeCopy) fill(f *copySource, name string, first *firstName, mine bool) error {
	if first != nil && !mine {
		<-first.done
		if first.ok {
			return t.further(f, name, first)
		}
	}
	if err := f.share.begin(t.quota, f.st.size); err != nil {
		return err
	}
	copied := false
	defer func() { f.share.end(copied) }()
	receipt, err := t.to.copyFile(t.ctx, name, f, t.o.File)
	if err != nil {
		return err
	}
	copied = true
	t.took.add(name, &f.st)
	t.mu.Lock()
	t.report.Bytes += receipt.Size
	t.mu.Unlock()
	t.made(receipt, &t.report.Files)
	return nil
}

// further makes name a further name of a file that was copied, if the source is
// what was copied then.
func (t *treeCopy) further(f *copySource, name string, first *firstName) error {
	err := f.unchanged()
	if err == nil {
		err = t.link(first.name, name)
	}
	if err == nil {
		t.took.add(name, &f.st)
	}
	return err
}

func (t *treeCopy) link(old, name string) error {
	give := t.to.linkOver
	if t.o.File.NoReplace {
		give = t.to.Link
	}
	err := give(old, name)
	if err == nil {
		t.made(identity.Receipt{Op: "link", Path: name}, &t.report.Files)
	}
	return cause(err)
}

func (t *treeCopy) symlink(e Entry, name string) error {
	switch t.o.Symlinks {
	case LinksSkip:
		return nil
	case LinksFail:
		return ErrSymlink
	}
	target, st, err := e.linkText(t.took != nil)
	if err != nil {
		return err
	}
	if err := t.to.Symlink(target, name); err != nil {
		return cause(err)
	}
	if t.took.add(name, &st); t.o.File.moving {
		t.to.likeLink(name, &st)
	}
	t.made(identity.Receipt{Op: "symlink", Path: name}, &t.report.Links)
	return nil
}

// dir makes a directory that its owner can fill, whatever its mode will be.
func (t *treeCopy) dir(e Entry, name string) error {
	later := dirMode{of: e, mode: 0o700}
	st, err := e.look()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errVanished
	case err == nil && st.dev == t.to.dev && st.ino == t.to.ino:
		t.end(errNested) // it was moved there meanwhile, or is mounted there
		return t.first
	}
	if t.o.File.KeepMode || t.o.File.moving {
		if err != nil {
			return err
		}
		if later.mode = st.mode.Perm() & t.c.r.policy.Modes; t.o.File.moving {
			later.mode, later.like = st.mode&allModes&t.c.r.policy.Modes, &st
			t.took.add(name, &st)
		}
		later.mode = modeAlone(e.dir.r.sys, e.dir.h, e.name, later.mode)
	}
	err = t.to.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) && t.took == nil {
		return nil // the directory that is there stays as it is
	}
	if err != nil {
		return err
	}
	if later.mode != 0o700 || later.like != nil {
		t.modes = append(t.modes, later)
	}
	t.made(identity.Receipt{Op: "mkdir", Path: name}, &t.report.Dirs)
	return nil
}

// modeAlone is the mode of a directory that does not get the access list of the
// one that name holds: with a list the group's bits are its mask, and others may
// have been refused by an entry.
func modeAlone(sys system, dir handle, name string, mode fs.FileMode) fs.FileMode {
	if listed, err := sys.hasAccess(dir, name); listed || err != nil {
		return mode &^ 0o077
	}
	return mode
}

// finishDir gives a directory that the copy made its mode, and to one that is
// moved its owner and times.
func (r *Root) finishDir(d dirMode, flush bool, lost *[]string) error {
	var c call
	if err := c.beginQuiet(r, &verbMkdir, d.name); err != nil {
		return err
	}
	defer c.end()
	h, err := noHandle, error(syscall.EACCES)
	if flush {
		h, err = c.openMade(openForList) // before the mode may refuse it
	}
	if errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrPolicy) {
		h, err = c.openMade(pathOnly | directoryOnly)
	}
	if err != nil {
		return c.fail(err)
	}
	defer r.sys.close(h)
	st, err := r.sys.stat(h, "", false)
	if err == nil {
		err = c.permitObject(StepAttrib, &st)
	}
	if err == nil {
		err = d.give(r.sys, h)
	}
	if err == nil && flush {
		_, err = c.syncDir(h, DurabilityDir, lost)
	}
	return c.fail(err)
}

// openMade opens a directory that the copy made, and never follows a link.
func (c *call) openMade(how openHow) (handle, error) {
	if !c.nearby() {
		return c.open(how, 0)
	}
	if err := c.toParent(); err != nil {
		return noHandle, err
	}
	h, err := c.openLeaf(how)
	if err == nil {
		if _, err = c.positionOf(h); err != nil {
			c.r.sys.close(h)
		}
	}
	return h, err
}

func (d *dirMode) give(sys system, dir handle) error {
	mode := d.mode
	if d.like != nil && sys.chown(dir, int(d.like.uid), int(d.like.gid)) != nil {
		mode &^= fs.ModeSetuid | fs.ModeSetgid
	}
	st, err := sys.stat(dir, "", false)
	if err == nil {
		err = setMode(sys, dir, st.mode&allModes, st.mode&fs.ModeSetgid|mode)
	}
	if err == nil && d.like != nil {
		err = sys.chtimes(dir, d.like.atime.time(), d.like.mtime.time())
	}
	return err
}
