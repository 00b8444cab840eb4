package scratch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

const (
	randomLength = 26                // of crypto/rand.Text
	justMade     = time.Second       // what New may need between a directory and its lock
	stagePrefix  = ".caproot-stage-" // of what Root.Sweep takes
)

// Sweep removes from the directory dir of r the scratch directories of dead
// processes that have the prefix and are older than age, and returns their names.
// A directory of a living process stays, and so does everything that New did not
// make, that cannot be made sure of, or that has no lock yet and is younger than
// a second. What could not be removed is reported, and the rest still swept; a
// later sweep tries again. A directory of a dead process with an entry that New
// did not make is left as it is, and reported with ErrChanged.
//
// The content is what has its name when Sweep opens it: a directory that somebody
// put there before is removed. What is put there later stays, with ErrChanged.
//
// It returns ErrName for a prefix that New refuses.
func Sweep(ctx context.Context, r *caproot.Root, dir, prefix string, age time.Duration) (removed []string, err error) {
	if err := admitPrefix(prefix); err != nil {
		return nil, err
	}
	parent, err := r.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	entries, err := parent.ReadDir(".")
	failed := []error{err}
	for _, e := range entries {
		if ctx.Err() != nil {
			failed = append(failed, context.Cause(ctx))
			break
		}
		if !e.IsDir() || !isScratch(e.Name(), prefix) {
			continue
		}
		gone, err := sweep(ctx, parent, e.Name(), age)
		if gone {
			removed = append(removed, e.Name())
		} else if err != nil {
			// Somebody else may have removed it, at any point.
			if exists, lerr := parent.Lexists(e.Name()); exists || lerr != nil {
				failed = append(failed, err)
			}
		}
	}
	return removed, errors.Join(failed...)
}

func isScratch(name, prefix string) bool {
	random, ok := strings.CutPrefix(name, prefix)
	return ok && len(random) == randomLength && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// sweep removes one directory. It does not, without an error, if its owner lives.
func sweep(ctx context.Context, parent *caproot.Root, name string, age time.Duration) (gone bool, err error) {
	outer, made, err := openSame(parent, name)
	if err != nil {
		return false, err
	}
	defer outer.Close()
	if time.Since(made.ModTime) < age {
		return false, nil
	}
	owned, err := outer.Lexists(ownerName)
	if err != nil {
		return false, err
	}
	if !owned && time.Since(made.ModTime) < justMade {
		return false, nil
	}
	if err := unstage(outer); err != nil {
		return false, err
	}
	if owned {
		// Whoever has the lock now knows that nobody had it.
		owner, err := lock.TryAdvisory(ctx, outer, ownerName, lock.AdvisoryOptions{})
		if errors.Is(err, lock.ErrBusy) {
			return false, nil
		}
		if err == nil {
			err = inherit(ctx, outer, owner)
		}
		if err != nil {
			return false, err
		}
	}
	if rest, err := outer.ReadDir("."); err != nil || len(rest) > 0 {
		return false, err // without an owner: not made by New
	}
	outer.Close()
	err = parent.RemoveIf(name, made)
	if errors.Is(err, fs.ErrExist) {
		return false, nil // not empty: somebody has just claimed it
	}
	return err == nil, err
}

// inherit removes what a dead process left, and the witness of its death last: as
// long as something of it is left, the next sweep finds it.
func inherit(ctx context.Context, outer *caproot.Root, owner lock.Lock) error {
	_, err := onlyOurs(outer)
	if err == nil {
		err = openAndClear(ctx, outer)
	}
	if err != nil && !errors.As(err, new(*replacedError)) {
		return errors.Join(err, owner.Release())
	}
	return errors.Join(err, removeOwner(outer, owner))
}

// unstage removes what a process that was killed while it made the lock's file may
// leave where no file can be without a name, from a directory with nothing else in it
// that New did not make.
func unstage(outer *caproot.Root) error {
	stages, err := onlyOurs(outer)
	if errors.Is(err, caproot.ErrChanged) {
		return nil
	}
	if err == nil && stages {
		_, err = outer.Sweep(".")
	}
	return err
}

// onlyOurs refuses a directory with an entry that New did not make, and tells
// whether it has stages.
func onlyOurs(outer *caproot.Root) (stages bool, err error) {
	entries, err := outer.ReadDir(".")
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == ownerName, name == contentName && e.IsDir():
		case strings.HasPrefix(name, stagePrefix):
			stages = true
		default:
			return false, &fs.PathError{Op: "sweep", Path: name, Err: fmt.Errorf("%w: not made with the scratch directory", caproot.ErrChanged)}
		}
	}
	return stages, nil
}
