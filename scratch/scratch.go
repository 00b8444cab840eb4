// Package scratch makes directories for work that is to leave nothing behind.
//
// A scratch directory is removed by Remove, or by exitcleanup when the program
// ends in order. The process that made it holds an advisory lock in it, which
// the kernel drops at death, by SIGKILL too: Sweep removes the directories of
// the dead and never one of the living, whatever its age.
package scratch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/exitcleanup"
	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/lock"
)

// A scratch directory NAME has two members. The lock lies beside the content,
// where the work does not come.
const (
	ownerName   = "owner"
	contentName = "content"
)

// maxSwept bounds how often New starts again because a sweep took its directory
// in the moment before it was locked.
const maxSwept = 256

// room is how many descriptors New keeps free for the removal of what it made.
const room = 3

// Options are the options of New.
type Options struct {
	// Prefix begins the name, which 26 random characters end. Sweep finds
	// directories by it.
	Prefix string
	// RetainOnExit leaves the directory to a sweep when the program ends.
	RetainOnExit bool
}

// Dir is a scratch directory. Its methods are safe for concurrent use.
type Dir struct {
	name  string
	work  *caproot.Root      // as New made it, closed or not
	entry *exitcleanup.Entry // nil if it is retained

	mu      sync.Mutex
	parent  *caproot.Root // nil once it is removed, or is another's
	outer   *caproot.Root // nil once it is empty
	owner   lock.Lock
	made    identity.Receipt // of outer
	content identity.Receipt // of work
}

// New makes a scratch directory in the directory dir of r, mode 0700. It needs
// the rights Read, List, Create, Modify, Mkdir and Remove, and returns
// ErrUnsupported where the file system does not tell one directory from the next,
// and ErrName for a prefix that no name can begin with, or that has a "*". It
// holds four descriptors. What it made before it failed it removes; what it
// cannot remove it leaves for a sweep.
func New(r *caproot.Root, dir string, o Options) (*Dir, error) {
	if err := admitPrefix(o.Prefix); err != nil {
		return nil, err
	}
	parent, err := r.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := identifies(parent); err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	spare, err := reserve(parent)
	if err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	d := &Dir{parent: parent}
	// Before the directory exists: a signal may come right after. The entry waits
	// for the mutex, and finds all or nothing.
	d.mu.Lock()
	defer d.mu.Unlock()
	if !o.RetainOnExit {
		d.entry = exitcleanup.Register("scratch directory "+o.Prefix+"*", func(context.Context) error { return d.Remove() })
	}
	err = d.make(o.Prefix)
	closeAll(spare)
	if err != nil {
		return nil, errors.Join(err, d.undo())
	}
	return d, nil
}

// admitPrefix refuses what MkdirTemp would take for a pattern or a path. No two
// prefixes make the same name: of one length they differ, and Sweep counts.
func admitPrefix(prefix string) error {
	if strings.ContainsAny(prefix, `*/\`) {
		return &fs.PathError{Op: "scratch", Path: prefix, Err: fmt.Errorf("%w: a prefix has no \"*\" and no separator", caproot.ErrName)}
	}
	return nil
}

// reserve opens descriptors that are closed to have room for others.
func reserve(r *caproot.Root) (spare []*caproot.Root, err error) {
	for range room {
		s, err := r.OpenRoot(".")
		if err != nil {
			closeAll(spare)
			return nil, err
		}
		spare = append(spare, s)
	}
	return spare, nil
}

func closeAll(roots []*caproot.Root) {
	for _, r := range roots {
		r.Close()
	}
}

// identifies asks before anything is made: without an identity nothing could be
// removed for certain.
func identifies(r *caproot.Root) error {
	id, err := r.Identity()
	if err != nil {
		return err
	}
	if verdict, why := identity.Compare(id, id); verdict != identity.Same {
		return fmt.Errorf("scratch directory: %w: %v", caproot.ErrUnsupported, why)
	}
	return nil
}

// make needs mu.
func (d *Dir) make(prefix string) error {
	for range maxSwept {
		var err error
		if d.name, err = d.parent.MkdirTemp("", prefix); err != nil {
			return err
		}
		if err = d.claim(); err == nil {
			if err = d.outer.Mkdir(contentName, 0o700); err != nil {
				return err
			}
			d.work, d.content, err = openSame(d.outer, contentName)
			return err
		}
		if !d.swept(err) {
			return err
		}
		if rerr := d.letGo(); rerr != nil {
			return errors.Join(err, rerr)
		}
	}
	return &fs.PathError{Op: "scratch", Path: prefix, Err: caproot.ErrUnstable}
}

// claim opens the new directory, makes sure of it, and locks it.
func (d *Dir) claim() (err error) {
	if d.outer, d.made, err = openSame(d.parent, d.name); err != nil {
		return err
	}
	d.owner, err = lock.TryAdvisory(context.Background(), d.outer, ownerName, lock.AdvisoryOptions{})
	return err
}

// swept needs mu. It tells whether claim failed because of a sweep. The error
// does not say: to make a file in a directory that was removed is EPERM on ext4.
func (d *Dir) swept(err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, lock.ErrBusy) {
		return true
	}
	exists, lerr := d.parent.Lexists(d.name)
	return lerr == nil && !exists
}

// openSame opens the directory that has the name itself, not one that a link
// leads to, and tells which it is.
func openSame(parent *caproot.Root, name string) (*caproot.Root, identity.Receipt, error) {
	seen, err := parent.Receipt(name)
	if err != nil {
		return nil, seen, err
	}
	sub, err := parent.OpenRoot(name)
	if err != nil {
		return nil, seen, err
	}
	id, err := sub.Identity()
	if err == nil {
		if verdict, why := identity.Compare(seen.ID, id); verdict != identity.Same || seen.Path != name {
			err = &fs.PathError{Op: "scratch", Path: name, Err: fmt.Errorf("%w: %v", caproot.ErrChanged, why)}
		}
	}
	if err != nil {
		return nil, seen, errors.Join(err, sub.Close())
	}
	return sub, seen, nil
}

// Root is the directory to work in. It is closed by Remove.
func (d *Dir) Root() *caproot.Root {
	if d == nil {
		return nil
	}
	return d.work
}

// Name is the name of the scratch directory in the directory given to New.
func (d *Dir) Name() string {
	if d == nil {
		return ""
	}
	return d.name
}
