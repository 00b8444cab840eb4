package scratch

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/lock"
)

// maxLooks bounds how often a removal waits a millisecond for a sweep that looks,
// and how often it empties a directory that others fill.
const maxLooks = 1000

// Remove removes the content, through the open directory and so wherever that
// is by now, and then the directory, if it still has its name. What has been put
// in the place of either stays, and the error matches ErrChanged; an empty
// directory may stay where the content was moved. Directories whose mode keeps
// them from being emptied get the owner's permissions, if the root has the right
// Attrib. Content that was moved is out of reach when Root was closed before or
// the mode of its topmost directory keeps the owner out.
//
// After another error the owner's lock is still there, or nothing but an empty
// directory is left, and Remove may be called again. Once it is done it does
// nothing.
func (d *Dir) Remove() error {
	if d == nil {
		return &fs.PathError{Op: "scratch", Err: fs.ErrInvalid}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.name == "" {
		return &fs.PathError{Op: "scratch", Err: fs.ErrInvalid}
	}
	return d.remove()
}

// remove needs mu.
func (d *Dir) remove() error {
	if d.parent == nil {
		return nil
	}
	err := d.letGo()
	if err != nil && !errors.As(err, new(*replacedError)) {
		return err
	}
	return errors.Join(err, d.end())
}

// end needs mu. Nothing of the directory is ours any more.
func (d *Dir) end() error {
	err := d.parent.Close()
	d.parent = nil
	if d.entry != nil {
		d.entry.Cancel()
	}
	return err
}

// undo needs mu. It removes what a New that failed has made, or else leaves it
// unlocked to a sweep, and keeps nothing open.
func (d *Dir) undo() error {
	err := d.remove()
	if d.parent == nil {
		return err
	}
	if d.outer != nil {
		if d.owner != nil {
			err = errors.Join(err, d.owner.Release())
		}
		err = errors.Join(err, d.closeOuter())
	}
	return errors.Join(err, d.end())
}

// replacedError is about a name that another object has now.
type replacedError struct{ error }

func (e *replacedError) Unwrap() error { return e.error }

// letGo needs mu. It removes the content, then the witness that it is somebody's,
// then the empty directory, each if it is still ours.
func (d *Dir) letGo() error {
	if d.outer != nil {
		err := d.clear()
		if err != nil && !errors.As(err, new(*replacedError)) {
			return err
		}
		if oerr := removeOwner(d.outer, d.owner); oerr != nil {
			return oerr
		}
		// On Windows an open directory cannot be removed.
		if cerr := d.closeOuter(); cerr != nil {
			return cerr
		}
		if err != nil {
			return err // the directory holds what is not ours
		}
	}
	return d.removeName()
}

// clear needs mu.
func (d *Dir) clear() error {
	if d.work != nil {
		return clearContent(context.Background(), d.outer, d.work, d.content)
	}
	return openAndClear(context.Background(), d.outer)
}

// closeOuter needs mu.
func (d *Dir) closeOuter() error {
	if d.work != nil {
		d.work.Close()
	}
	if err := d.outer.Close(); err != nil {
		return err
	}
	d.outer, d.owner = nil, nil
	return nil
}

// removeName needs mu. It removes the empty directory.
func (d *Dir) removeName() error {
	if d.name == "" {
		return nil
	}
	if d.made.Path == "" { // New failed before it looked
		dir, made, err := openSame(d.parent, d.name)
		if err != nil {
			return ifThere(err)
		}
		dir.Close()
		d.made = made
	}
	var err error
	for range maxLooks {
		err = ifThere(d.parent.RemoveIf(d.name, d.made))
		if err == nil {
			d.made = identity.Receipt{}
			return nil
		}
		if errors.Is(err, caproot.ErrChanged) {
			return &replacedError{err}
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

// ifThere makes a missing name no error.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// openAndClear is clearContent for the directory that has the name now.
func openAndClear(ctx context.Context, outer *caproot.Root) error {
	work, made, err := openSame(outer, contentName)
	if err != nil {
		return ifThere(err)
	}
	return errors.Join(clearContent(ctx, outer, work, made), work.Close())
}

// clearContent removes the directory made, which is open as work, and all that is
// in it. If it has its name no more, it is emptied where it is, and what has the
// name is left: a *replacedError.
func clearContent(ctx context.Context, outer, work *caproot.Root, made identity.Receipt) error {
	for range maxLooks {
		report, err := outer.RemoveTree(ctx, contentName, caproot.TreeLimits{Force: true, IfMatch: &made})
		if err != nil && !errors.Is(err, caproot.ErrChanged) || err == nil && report.Removed > 0 {
			return err
		}
		if err = empty(ctx, work); err != nil {
			return err
		}
		err = outer.RemoveIf(contentName, made)
		switch {
		case errors.Is(err, caproot.ErrChanged):
			return &replacedError{err}
		case caproot.Code(err) != "not-empty":
			return ifThere(err)
		}
	}
	return &fs.PathError{Op: "scratch", Path: contentName, Err: caproot.ErrUnstable}
}

// empty removes everything in dir.
func empty(ctx context.Context, dir *caproot.Root) error {
	for range maxLooks {
		entries, err := dir.ReadDir(".")
		failed := []error{ifThere(err)}
		for _, e := range entries {
			_, err := dir.RemoveTree(ctx, e.Name(), caproot.TreeLimits{Force: true})
			failed = append(failed, err)
		}
		if err := errors.Join(failed...); err != nil || len(entries) == 0 {
			return err
		}
	}
	return &fs.PathError{Op: "scratch", Path: contentName, Err: caproot.ErrUnstable}
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
		if ifThere(err) != nil {
			// Windows may not remove an open file.
			err = outer.Remove(ownerName)
		}
	}
	return ifThere(err)
}
