package caproot

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

var (
	verbRemove    = verb{name: "remove", needs: Remove, changes: true}
	verbRemoveAll = verb{name: "removeall", needs: Remove, changes: true}
	verbRemoveIf  = verb{name: "removeif", needs: Remove, changes: true, traced: true}
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
	named, err := c.leafStatus()
	if err != nil {
		return err
	}
	if !named.sameNumbers(&mine) {
		return because(ErrChanged, "replaced while it was compared")
	}
	return c.r.sys.remove(c.dir, c.leaf, mine.isDir())
}

// RemoveAll removes name and everything below it, as os.Root.RemoveAll does; a
// missing name is success. A link is removed as a link. It never crosses a
// mount point: one in the tree is ErrMount or the system's EBUSY, under every
// policy. What cannot be removed is reported and the rest still removed.
func (r *Root) RemoveAll(name string) error {
	var c call
	if err := c.begin(r, &verbRemoveAll, name); err != nil {
		return err
	}
	defer c.end()
	return c.fail(c.removeTree())
}

// removeTree takes only the absence of the name itself for success. An ENOENT
// from inside the tree means that it was moved while it was emptied.
func (c *call) removeTree() error {
	err := c.toParent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, err := c.leafStatus()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.isDir() {
		return c.r.sys.remove(c.dir, c.leaf, false)
	}
	t := treeRemoval{sys: c.r.sys, mount: c.r.mount, scratch: make([]byte, listBytes)}
	if c.r.policy.Mounts == MountsCross {
		full, err := c.r.sys.stat(c.dir, "", true)
		if err != nil {
			return err
		}
		t.mount = full.mount
	}
	return t.run(c.dir, c.leaf)
}

const (
	maxTreeDepth = 1 << 20 // directories below each other
	maxPasses    = 1 << 16 // listings of one directory, which others may fill meanwhile
	maxReported  = 100     // failures named in one error
)

// level is a directory that is being emptied.
type level struct {
	name    string
	dir     handle // noHandle when let go, to bound the handles of a deep tree
	st      status
	passes  int
	stuck   map[string]bool // names that could not be removed
	pending []direntry
}

// treeRemoval removes a tree depth first, without recursion. It holds at most
// maxHeld directories; one that was let go is found again as the parent of its
// child, and accepted only if it is the same.
type treeRemoval struct {
	sys      system
	mount    uint64
	scratch  []byte
	levels   []level
	failures *multierror.Error
}

func (t *treeRemoval) run(dir handle, leaf string) error {
	defer t.unwind()
	if err := t.descend(dir, leaf); err != nil {
		return err
	}
	for len(t.levels) > 0 {
		top := &t.levels[len(t.levels)-1]
		if len(top.pending) == 0 && !t.refill(top) {
			if err := t.ascend(dir); err != nil {
				return multierrorOr(t.failures, err)
			}
			continue
		}
		e := top.pending[0]
		top.pending = top.pending[1:]
		if err := t.removeEntry(top, e); err != nil {
			t.report(top, e.name, err)
		}
	}
	return t.failures.ErrorOrNil()
}

// removeEntry unlinks what is no directory and descends into what is. The
// listing's type is only a hint: the kernel decides by its answer.
func (t *treeRemoval) removeEntry(top *level, e direntry) error {
	if !e.mode.IsDir() {
		err := t.sys.remove(top.dir, e.name, false)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != syscall.EISDIR && err != syscall.EPERM {
			return err
		}
	}
	err := t.descend(top.dir, e.name)
	if err != nil && maybeLink(err) {
		err = t.sys.remove(top.dir, e.name, false)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// descend opens a directory and makes it the top level.
func (t *treeRemoval) descend(dir handle, name string) error {
	if len(t.levels) >= maxTreeDepth {
		return ErrTooLarge
	}
	h, err := t.sys.open(dir, name, forRead|directoryOnly|nonBlocking, 0)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) && t.sys.remove(dir, name, true) == nil {
			return nil
		}
		return err
	}
	st, err := t.sys.stat(h, "", true)
	if err == nil && st.mount != t.mount {
		err = ErrMount
	}
	if err != nil {
		t.sys.close(h)
		return err
	}
	if n := len(t.levels) - maxHeld; n >= 0 && t.levels[n].dir != noHandle {
		t.sys.close(t.levels[n].dir)
		t.levels[n].dir = noHandle
	}
	t.levels = append(t.levels, level{name: name, dir: h, st: st})
	return nil
}

// refill lists the directory from the start, because a listing that goes on
// while entries are removed may pass some over. It reports whether there is
// more to remove.
func (t *treeRemoval) refill(top *level) bool {
	if top.passes++; top.passes > maxPasses {
		t.report(top, ".", ErrUnstable)
		return false
	}
	if _, err := t.sys.seek(top.dir, 0, 0); err != nil {
		t.report(top, ".", err)
		return false
	}
	for {
		entries, err := t.sys.list(top.dir, t.scratch)
		if err != nil {
			t.report(top, ".", err)
			return false
		}
		if len(entries) == 0 {
			return false
		}
		for _, e := range entries {
			if !top.stuck[e.name] {
				top.pending = append(top.pending, e)
			}
		}
		if len(top.pending) > 0 {
			return true
		}
	}
}

// ascend removes the directory that is done and goes on in its parent.
func (t *treeRemoval) ascend(base handle) error {
	n := len(t.levels) - 1
	done := t.levels[n]
	parent := base
	if n > 0 {
		if err := t.regain(&t.levels[n-1], done.dir); err != nil {
			return err
		}
		parent = t.levels[n-1].dir
	}
	t.levels = t.levels[:n]
	t.sys.close(done.dir)
	if len(done.stuck) > 0 {
		if n > 0 {
			t.mark(&t.levels[n-1], done.name)
		}
		return nil
	}
	now, err := t.sys.stat(parent, done.name, false)
	if err == nil && !now.sameNumbers(&done.st) {
		err = because(ErrChanged, "directory replaced while it was emptied")
	}
	if err == nil {
		err = t.sys.remove(parent, done.name, true)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if n > 0 {
		t.report(&t.levels[n-1], done.name, err)
		return nil
	}
	return err
}

func multierrorOr(failures *multierror.Error, err error) error {
	if failures == nil {
		return err
	}
	return multierror.Append(failures, err)
}

// regain opens a directory that was let go through its child's "..".
func (t *treeRemoval) regain(l *level, child handle) error {
	if l.dir != noHandle {
		return nil
	}
	h, err := t.sys.open(child, "..", forRead|directoryOnly|nonBlocking, 0)
	if err != nil {
		return &detail{ErrChanged, "the way back up is gone: " + err.Error(), nil}
	}
	st, err := t.sys.stat(h, "", false)
	if err == nil && !st.sameNumbers(&l.st) {
		err = because(ErrChanged, "a directory was moved while it was emptied")
	}
	if err != nil {
		t.sys.close(h)
		return err
	}
	l.dir = h
	return nil
}

func (t *treeRemoval) mark(l *level, name string) {
	if l.stuck == nil {
		l.stuck = map[string]bool{}
	}
	l.stuck[name] = true
}

func (t *treeRemoval) report(l *level, name string, err error) {
	t.mark(l, name)
	if t.failures == nil || len(t.failures.Errors) < maxReported {
		t.failures = multierror.Append(t.failures, &fs.PathError{Op: "remove", Path: l.name + "/" + name, Err: err})
	}
}

func (t *treeRemoval) unwind() {
	for _, l := range t.levels {
		if l.dir != noHandle {
			t.sys.close(l.dir)
		}
	}
}
