package caproot

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// CreateTemp makes a new file in the directory dir and opens it for reading
// and writing, mode 0600. The last "*" of pattern, or its end, becomes 26 random
// characters. The name that comes back is below the root, and "" with an error.
func (r *Root) CreateTemp(dir, pattern string) (f *os.File, name string, err error) {
	name, err = r.temp("createtemp", dir, pattern, func(name string) (err error) {
		f, err = r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return f, name, err
}

// MkdirTemp makes a new directory in dir, mode 0700, named as by CreateTemp.
func (r *Root) MkdirTemp(dir, pattern string) (name string, err error) {
	return r.temp("mkdirtemp", dir, pattern, func(name string) error { return r.Mkdir(name, 0o700) })
}

func (r *Root) temp(op, dir, pattern string, make func(string) error) (string, error) {
	if strings.ContainsAny(pattern, `/\`) {
		return "", r.refuse(&verb{name: op}, pattern, because(ErrName, "pattern contains a path separator"))
	}
	prefix, suffix := pattern, ""
	if i := strings.LastIndexByte(pattern, '*'); i >= 0 {
		prefix, suffix = pattern[:i], pattern[i+1:]
	}
	for range maxRaces {
		name := prefix + rand.Text() + suffix
		if dir != "" {
			name = dir + "/" + name
		}
		err := make(name)
		switch {
		case err == nil:
			return name, nil
		case !errors.Is(err, fs.ErrExist):
			return "", err
		}
	}
	return "", &fs.PathError{Op: op, Path: dir, Err: ErrUnstable}
}

var verbSweep = verb{name: "sweep", needs: List | Remove, changes: true, inside: true}

// Sweep removes from the directory name the stages of replacements whose
// process died, and returns how many. A stage is a plain file under a name of
// exactly the form ".caproot-stage-" and 26 random characters, which every verb
// that makes names refuses with ErrName; anything else stays. It is locked for as
// long as its process lives, and one that is locked stays too.
//
// The stage of an exchange for PutOptions.IfMatch has marks between, by which
// Sweep knows the new file and the expected one that it displaced. What else an
// exchange displaced before its process died may be another writer's only copy: it
// stays, for a person to look at.
func (r *Root) Sweep(name string) (removed int, err error) {
	var c call
	if err := c.begin(r, &verbSweep, name); err != nil {
		return 0, err
	}
	defer c.end()
	dir, err := c.open(forRead|directoryOnly, 0)
	if err != nil {
		return 0, c.fail(err)
	}
	defer r.sys.close(dir)
	var names []string
	for scratch := make([]byte, listBytes); ; {
		entries, err := r.sys.list(dir, scratch)
		if err != nil {
			return 0, c.fail(err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			if isStageName(e.name) {
				names = append(names, e.name)
			}
		}
	}
	if err := c.enterPlace(dir); err != nil {
		return 0, c.fail(err)
	}
	for _, c.leaf = range names {
		swept, err := c.sweepStage()
		if err != nil {
			return removed, c.fail(err)
		}
		if swept {
			removed++
		}
	}
	return removed, nil
}

// sweepStage looks at the type before it locks: the lock of a foreign file
// would be noticed.
func (c *call) sweepStage() (bool, error) {
	sys := c.r.sys
	h, err := c.openLeaf(forRead | nonBlocking)
	if err != nil {
		return false, nil
	}
	defer sys.close(h)
	held, err := sys.stat(h, "", false)
	if err != nil || !held.isRegular() || !isStage(c.leaf, &held) || sys.lock(h) != nil {
		return false, nil
	}
	if err = c.admitLeaf(); err == nil {
		err = c.permit(StepRemove, 0)
	}
	if err != nil {
		return false, err
	}
	named, err := sys.stat(c.dir, c.leaf, false)
	return err == nil && named.sameNumbers(&held) && isStage(c.leaf, &named) && sys.remove(c.dir, c.leaf, false) == nil, nil
}
