package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
)

// place is where a record lies: a directory held open, and a name in it.
type place struct {
	dir      *caproot.Root
	owned    bool // dir is closed with the place
	id       recordID
	leaf     string
	guard    string // the name of the guard
	lockPath string // for people
}

func (p *place) key() key { return key{dir: p.id, leaf: p.leaf} }

func (p *place) close() {
	if p.owned {
		p.dir.Close()
	}
}

// request is one acquisition before it takes its turn.
type request struct {
	ctx    context.Context
	o      Options
	r      *caproot.Root
	byPath bool
	target string
	key    key
	place  place
	// payload was evaluated before directories were made, for the first attempt.
	payload []byte
}

// admit checks the call against the root before anything is made: spellings,
// rights, that the root is alive, and that no link has the record's name. It
// returns the name of the record below the root.
func (q *request) admit() (lockPath string, err error) {
	if q.r == nil {
		return "", errNoRoot("lock", q.target)
	}
	names := q.r.Policy().Names
	refuse := func(err error) error { return &fs.PathError{Op: "lock", Path: q.target, Err: err} }
	lockPath = q.o.LockPath
	if lockPath == "" || !filepath.IsAbs(q.target) {
		shape, err := pathsafe.Parse(q.target, names)
		if err == nil && lockPath == "" {
			lockPath, err = besideTarget(shape)
		}
		if err != nil {
			return "", refuse(spelling(err))
		}
	}
	if _, err := pathsafe.Parse(lockPath, names); err != nil {
		return "", &fs.PathError{Op: "lock", Path: lockPath, Err: spelling(err)}
	}
	needs := caproot.Read | caproot.List | caproot.Create | caproot.Remove
	if q.o.KeepRecord {
		needs |= caproot.Move
	}
	if q.o.Fair {
		needs |= caproot.Modify
	}
	if q.r.Policy().Rights&needs != needs {
		return "", refuse(caproot.ErrPolicy)
	}
	if _, err := idOf(q.r); err != nil {
		return "", refuse(err)
	}
	if q.o.Payload == nil {
		// Nothing of the caller's runs before the record itself is looked at.
		return lockPath, nil
	}
	return lockPath, q.refuseLink(lockPath)
}

// errNoRoot is the answer to a call without a Root: that of the Root itself.
func errNoRoot(op, name string) error {
	_, err := (*caproot.Root)(nil).Identity()
	return &fs.PathError{Op: op, Path: name, Err: errors.Unwrap(err)}
}

func (q *request) refuseLink(lockPath string) error {
	exists, err := q.r.Lexists(lockPath)
	if err != nil || !exists {
		return err
	}
	info, err := q.r.Lstat(lockPath)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return &RecordError{lockPath, caproot.ErrSymlink}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// besideTarget is the default name of the record.
func besideTarget(target pathsafe.Shape) (string, error) {
	switch {
	case target.Leaf == "" || target.Leaf == "..":
		return "", fmt.Errorf("%w: the target has no name of its own", caproot.ErrName)
	case target.Parent == "":
		return target.Leaf + recordSuffix, nil
	}
	return target.Parent + "/" + target.Leaf + recordSuffix, nil
}

// spelling gives a refused spelling the cause that a verb of the Root gives.
func spelling(err error) error {
	var e *pathsafe.Error
	if errors.As(err, &e) {
		switch e.Rule {
		case pathsafe.Absolute, pathsafe.UNC, pathsafe.DevicePath, pathsafe.Drive:
			return fmt.Errorf("%w: %w", caproot.ErrEscape, err)
		}
		return fmt.Errorf("%w: %w", caproot.ErrName, err)
	}
	return err
}

// locate finds the key of the target and opens the place of the record. A
// missing directory of the record is made after the payload was seen to be
// acceptable.
func (q *request) locate() error {
	lockPath, err := q.admit()
	if err != nil {
		return err
	}
	err = q.openPlace(lockPath)
	if errors.Is(err, fs.ErrNotExist) && !q.byPath {
		if q.payload, err = q.evaluate(); err != nil {
			return err
		}
		if err = q.r.MkdirAll(path.Dir(lockPath), 0o755); err != nil {
			return err
		}
		err = q.openPlace(lockPath)
	}
	if err == nil {
		if err = q.findKey(); err != nil {
			q.place.close()
		}
	}
	return err
}

// openPlace uses the root itself for a name directly below it.
func (q *request) openPlace(lockPath string) error {
	q.place = place{dir: q.r, owned: q.byPath, leaf: lockPath, lockPath: lockPath}
	if strings.ContainsAny(lockPath, `/\`) || lockPath == "." || lockPath == ".." {
		dir, canonical, err := q.r.OpenParent(lockPath)
		if err != nil {
			return err
		}
		q.place = place{dir: dir, owned: true, leaf: path.Base(canonical), lockPath: canonical}
	}
	id, err := idOf(q.place.dir)
	if err == nil && !id.known() {
		// Directories without a number could not be told apart.
		err = &fs.PathError{Op: "lock", Path: lockPath, Err: ErrUnsupported}
	}
	if err != nil {
		q.place.close()
		return err
	}
	q.place.id, q.place.guard = id, q.place.leaf+guardSuffix
	return nil
}

// idOf names a directory while it is open.
func idOf(dir *caproot.Root) (recordID, error) {
	dev, ino, err := dir.Numbers()
	return recordID{dev, ino}, err
}

// findKey needs no directory of its own where the record lies beside the target.
func (q *request) findKey() error {
	if q.byPath && q.o.LockPath != "" {
		return nil // AcquirePath has found it
	}
	if q.o.LockPath == "" {
		q.key = q.place.key()
		q.key.leaf = strings.TrimSuffix(q.place.leaf, recordSuffix)
		return nil
	}
	if filepath.IsAbs(q.target) {
		q.key = key{text: filepath.Clean(q.target)}
		return nil
	}
	dir, canonical, err := q.r.OpenParent(q.target)
	if err != nil {
		// Missing or outside: then only the text can tell.
		dir, canonical = q.r, ""
	} else {
		defer dir.Close()
	}
	id, err := idOf(dir)
	if err != nil {
		return err
	}
	q.key = key{dir: id}
	switch {
	case canonical == "":
		q.key.text = path.Clean(q.target)
	case id.known():
		q.key.leaf = path.Base(canonical)
	default:
		q.key.leaf, q.key.text = path.Base(canonical), dir.Name()
	}
	return nil
}
