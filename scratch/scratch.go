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
	"sync"
	"time"

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

// maxLooks bounds how often a removal waits a millisecond for a sweep that looks.
const maxLooks = 1000

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
	entry *exitcleanup.Entry // nil if it is retained

	mu     sync.Mutex
	parent *caproot.Root // nil once it is removed, or is another's
	outer  *caproot.Root // nil once it is empty
	owner  lock.Lock
	work   *caproot.Root
	made   identity.Receipt
}

// New makes a scratch directory in the directory dir of r, mode 0700. It needs
// the rights Read, List, Create, Modify, Mkdir and Remove, and returns
// ErrUnsupported where the file system does not tell one directory from the next.
func New(r *caproot.Root, dir string, o Options) (*Dir, error) {
	parent, err := r.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := identifies(parent); err != nil {
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
	if err = d.make(o.Prefix); err != nil {
		err = errors.Join(err, d.remove())
		return nil, err
	}
	return d, nil
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
			d.work, err = d.outer.OpenRoot(contentName)
			return err
		}
		swept := d.swept(err)
		if rerr := d.letGo(); !swept || rerr != nil {
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

// Remove removes the content, through the open directory and so wherever that
// is by now, and then the directory, if it still has its name: what has been put
// in its place stays, and the error matches ErrChanged. After another error
// Remove may be called again. Once it is done it does nothing.
func (d *Dir) Remove() error {
	if d == nil || d.name == "" {
		return &fs.PathError{Op: "scratch", Err: fs.ErrInvalid}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove()
}

// remove needs mu.
func (d *Dir) remove() error {
	if d.parent == nil {
		return nil
	}
	if d.outer != nil {
		if err := d.outer.RemoveAll(contentName); err != nil {
			return err
		}
	}
	err := d.letGo()
	if err != nil && !errors.Is(err, caproot.ErrChanged) {
		return err
	}
	err = errors.Join(err, d.parent.Close())
	d.parent = nil
	if d.entry != nil {
		d.entry.Cancel()
	}
	return err
}

// letGo needs mu. It removes the empty directory, if it is still ours.
func (d *Dir) letGo() error {
	if d.outer != nil {
		if err := removeOwner(d.outer, d.owner); err != nil {
			return err
		}
		if d.work != nil {
			d.work.Close()
		}
		// On Windows an open directory cannot be removed.
		if err := d.outer.Close(); err != nil {
			return err
		}
		d.outer, d.owner, d.work = nil, nil, nil
	}
	if d.made.Path == "" {
		return nil // nothing was made, or nothing that could be made sure of
	}
	var err error
	for range maxLooks {
		err = d.parent.RemoveIf(d.name, d.made)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			d.made = identity.Receipt{}
			return nil
		}
		if caproot.Code(err) != "not-empty" {
			return err
		}
		// A sweep that saw the lock's file makes it anew to ask for the lock, and
		// then removes it, or the directory.
		time.Sleep(time.Millisecond)
	}
	return err
}

// removeOwner removes the lock's file and then gives the lock up. In the other
// order somebody could lock the file in between, and lose it. A sweep may have
// done it before.
func removeOwner(outer *caproot.Root, owner lock.Lock) error {
	err := outer.Remove(ownerName)
	if owner != nil {
		rerr := owner.Release()
		if rerr != nil && !errors.Is(rerr, lock.ErrCompromised) {
			return errors.Join(err, rerr)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			// Windows may not remove an open file.
			err = outer.Remove(ownerName)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
