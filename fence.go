package caproot

import (
	"errors"
	"io/fs"
	"time"
)

// Fence decides, at the moment of each change, whether its holder may still
// make it. Package lock has one whose holder is refused once a later token was
// issued.
type Fence interface {
	// Enter returns when the change may be made, or the error that refuses it.
	// The change is one call of the kernel, or the few of a compare-and-swap;
	// leave is called after it. What would make the change wrong must wait for
	// leave. Enter is called by several goroutines at a time, never nested.
	Enter() (leave func(), err error)
}

// Fenced returns a Root of the same directory, each change through which passes
// f at the call of the kernel that makes it: of names, of attributes, of content,
// also by a File. The errors of f come back, within an *fs.PathError or
// *os.LinkError, but none of them matches fs.ErrNotExist or fs.ErrExist. Roots
// derived from it are fenced too. Closing r does not close it.
//
// Not covered: an *os.File, or the descriptor of Staged.File or Root.File, once
// it was handed out; memory mapped from it; anything that does not go through the
// fenced Root. A verb of several changes, such as RemoveTree or MkdirAll, may be
// refused between two of them. The stage of a publication that is refused is
// taken away regardless: nobody else knows its name.
//
// It returns ErrOption without a fence.
func (r *Root) Fenced(f Fence) (*Root, error) {
	var c call
	if err := c.begin(r, &verbFenced, "."); err != nil {
		return nil, err
	}
	defer c.end()
	if f == nil {
		return nil, c.fail(errNoFence)
	}
	h, err := r.sys.dup(r.dir)
	if err != nil {
		return nil, c.fail(err)
	}
	sys := &fencedSystem{r.sys, f}
	sub, err := newRoot(sys, h, r.name, r.policy, r.tenure)
	if err != nil {
		return nil, c.fail(err)
	}
	sub.beneath, sub.bound, sub.deny, sub.below = nil, r.bound, r.deny, r.below
	if r.beneath != nil {
		sub.beneath = &fencedBeneath{r.beneath, sys}
	}
	return sub, nil
}

var verbFenced = verb{name: "fenced"}

// fencedSystem passes the fence around each primitive that changes something, so
// no verb can forget it.
type fencedSystem struct {
	system
	fence Fence
}

// fenceRefusal is the answer of a fence. A refusal must not look like absence.
type fenceRefusal struct{ err error }

func (e *fenceRefusal) Error() string { return e.err.Error() }

func (e *fenceRefusal) Is(target error) bool {
	if errors.Is(target, fs.ErrNotExist) || errors.Is(target, fs.ErrExist) {
		return false
	}
	return errors.Is(e.err, target)
}

func (s *fencedSystem) pass(change func() error) error {
	leave, err := s.fence.Enter()
	if err != nil {
		return &fenceRefusal{err}
	}
	defer leave()
	return change()
}

// changing are the ways to open that may change something by themselves.
const changing = creating | truncating

// passOpen is pass for an open.
func (s *fencedSystem) passOpen(how openHow, open func() (handle, error)) (handle, error) {
	if how&changing == 0 {
		return open()
	}
	h := noHandle
	err := s.pass(func() (err error) {
		h, err = open()
		return err
	})
	return h, err
}

func (s *fencedSystem) open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	return s.passOpen(how, func() (handle, error) { return s.system.open(dir, name, how, perm) })
}

func (s *fencedSystem) unnamed(dir handle, perm fs.FileMode) (handle, error) {
	return s.passOpen(creating, func() (handle, error) { return s.system.unnamed(dir, perm) })
}

func (s *fencedSystem) mkdir(dir handle, name string, perm fs.FileMode) error {
	return s.pass(func() error { return s.system.mkdir(dir, name, perm) })
}

func (s *fencedSystem) remove(dir handle, name string, isDir bool) error {
	return s.pass(func() error { return s.system.remove(dir, name, isDir) })
}

func (s *fencedSystem) rename(from handle, name string, to handle, newName string, how renameHow) error {
	return s.pass(func() error { return s.system.rename(from, name, to, newName, how) })
}

func (s *fencedSystem) link(from handle, name string, to handle, newName string) error {
	return s.pass(func() error { return s.system.link(from, name, to, newName) })
}

func (s *fencedSystem) symlink(target string, dir handle, name string) error {
	return s.pass(func() error { return s.system.symlink(target, dir, name) })
}

func (s *fencedSystem) publish(file, dir handle, name string) error {
	return s.pass(func() error { return s.system.publish(file, dir, name) })
}

func (s *fencedSystem) copyAccess(dir handle, name string, to handle) error {
	return s.pass(func() error { return s.system.copyAccess(dir, name, to) })
}

func (s *fencedSystem) write(file handle, p []byte) (n int, err error) {
	err = s.pass(func() (err error) {
		n, err = s.system.write(file, p)
		return err
	})
	return n, err
}

func (s *fencedSystem) writeAt(file handle, p []byte, offset int64) (n int, err error) {
	err = s.pass(func() (err error) {
		n, err = s.system.writeAt(file, p, offset)
		return err
	})
	return n, err
}

func (s *fencedSystem) truncate(file handle, size int64) error {
	return s.pass(func() error { return s.system.truncate(file, size) })
}

func (s *fencedSystem) chmod(object handle, mode fs.FileMode) error {
	return s.pass(func() error { return s.system.chmod(object, mode) })
}

func (s *fencedSystem) chown(object handle, uid, gid int) error {
	return s.pass(func() error { return s.system.chown(object, uid, gid) })
}

func (s *fencedSystem) chtimes(object handle, atime, mtime time.Time) error {
	return s.pass(func() error { return s.system.chtimes(object, atime, mtime) })
}

// fencedBeneath is the kernel's resolver behind the fence.
type fencedBeneath struct {
	inner beneathOpener
	sys   *fencedSystem
}

func (b *fencedBeneath) openBeneath(dir handle, path string, how openHow, perm fs.FileMode, rule beneathRule) (handle, error) {
	return b.sys.passOpen(how, func() (handle, error) { return b.inner.openBeneath(dir, path, how, perm, rule) })
}

// unfenced is the system behind all fences, for what the fence has been passed
// for already and for what no successor can see.
func unfenced(sys system) system {
	for {
		fenced, ok := sys.(*fencedSystem)
		if !ok {
			return sys
		}
		sys = fenced.system
	}
}

// enterFence passes the fence for a change that takes several calls of the
// kernel, which the caller makes by the system that it gets.
func enterFence(sys system) (inside system, leave func(), err error) {
	fenced, ok := sys.(*fencedSystem)
	if !ok {
		return sys, func() {}, nil
	}
	inside, outer, err := enterFence(fenced.system)
	if err != nil {
		return nil, nil, err
	}
	inner, err := fenced.fence.Enter()
	if err != nil {
		outer()
		return nil, nil, &fenceRefusal{err}
	}
	return inside, func() { inner(); outer() }, nil
}
