package caproot

import (
	"context"
	"io/fs"
	"iter"
	"path"
	"sync/atomic"

	"github.com/caproot/caproot/pathsafe"
)

var verbWalk = verb{name: "walk", needs: List}

// WalkOptions are the options of Walk. The zero value walks everything on the
// start's mount, in the order of the file system, and fails at the first error.
type WalkOptions struct {
	// Sorted gives the names of each directory in the order of their bytes, and
	// each directory before what is in it. It keeps the names of a directory in
	// memory, and one worker walks, whatever Workers says.
	Sorted bool
	// MaxEntries limits how many names are read from directories, those that
	// Filter passes over included. MaxDepth limits the depth of an entry; what is
	// directly in the start has depth 1. A directory at MaxDepth is opened, and
	// any name in it, which Filter is not asked about, is ErrTooLarge. Zero limits
	// nothing.
	MaxEntries int64
	MaxDepth   int
	// Truncate marks what a limit cut (Entry.Truncated) where the walk otherwise
	// ends with ErrTooLarge: a directory at MaxDepth is not opened, and marked
	// even if it is empty, and when MaxEntries are used up the walk ends with the
	// directory it stood in.
	Truncate bool
	// Filter decides on each entry before it is seen. With several workers it is
	// called from several goroutines. A directory that WalkSkip passes over is seen
	// all the same if a limit or a grant keeps the walk from entering it.
	Filter func(Entry) WalkStep
	// FollowLinks enters directories that symbolic links lead to, as far as
	// Policy.Links follows. Each directory is entered once, through whichever link
	// or mount is met first, and none that is on the way from the root to the
	// start. It keeps the device, number and time of birth of every directory in
	// memory: a file system that gives a directory others while it is walked (one
	// of overlay that is copied up) may have it entered again, one that tells no
	// times of birth a new directory taken for a removed one and passed over. At
	// MaxDepth no link is followed.
	FollowLinks bool
	// Mounts MountsCross enters mount points, if the policy crosses them too.
	// Otherwise one is ErrMount.
	Mounts MountRule
	// InlineErrors makes the walk go on after an error: the pair of entry and
	// error tells what was not read. Otherwise the first error ends the walk.
	InlineErrors bool
	// Workers is how many goroutines read directories. With more than one the
	// order means nothing. Zero is one.
	Workers int
	// Info reads the metadata of each entry along with its name, which Workers do
	// side by side.
	Info bool
}

// WalkStep is what a filter decides.
type WalkStep uint8

const (
	WalkTake     WalkStep = iota // see the entry, enter it if it is a directory
	WalkSkip                     // do not see it, but enter it
	WalkSkipTree                 // neither
	WalkLeaf                     // see the entry, do not enter it
)

// Entry is an object that a walk found. It is an fs.DirEntry. Open and Info use
// the directory that the walk holds open, without resolving a path again; they
// work until the walk is asked for the next entry, later they return fs.ErrClosed.
type Entry struct {
	dir  *walkDir
	name string // "." for the start itself
	mode fs.FileMode
	cut  bool
	st   *status
}

var _ fs.DirEntry = Entry{}

// Name is the last component of the entry's path.
func (e Entry) Name() string {
	if e.name == "." {
		return path.Base(e.Path())
	}
	return e.name
}

// Path is the entry's name below the root. The start's own part is as the
// caller spelled it, without redundant separators.
func (e Entry) Path() string {
	if e.dir == nil {
		return ""
	}
	dir := e.dir.fullPath()
	switch {
	case e.name != ".":
		return joinCanonical(dir, e.name)
	case dir == "":
		return "."
	}
	return dir
}

// Depth is 1 for what is directly in the start of the walk.
func (e Entry) Depth() int {
	if e.name == "." || e.dir == nil {
		return 0
	}
	return e.dir.depth + 1
}

// IsDir reports whether the entry is a directory; a link to one is not.
func (e Entry) IsDir() bool { return e.mode.IsDir() }

// Type is the type of the entry. It is fs.ModeIrregular where it is not known.
func (e Entry) Type() fs.FileMode { return e.mode }

// Truncated tells that a limit or a grant kept the walk from seeing all that is
// in this directory, or whether anything is.
func (e Entry) Truncated() bool { return e.cut }

func (e Entry) String() string { return fs.FormatDirEntry(e) }

// Info describes the entry, a link as a link. It returns ErrMount for a mount
// point where the policy stays on the mount. What the walk has looked at already
// it answers after a revocation too.
func (e Entry) Info() (fs.FileInfo, error) {
	st, err := e.status()
	if e.dir != nil && e.dir.r.opened() && e.dir.r.tenure.told {
		e.dir.r.report(verbStat.name, e.Path(), "", err)
	}
	if err != nil {
		return nil, &fs.PathError{Op: verbStat.name, Path: e.Path(), Err: err}
	}
	return newFileInfo(e.Name(), st), nil
}

func (e Entry) status() (status, error) {
	if e.st != nil {
		return *e.st, nil
	}
	if e.dir == nil {
		return status{}, errNoEntry
	}
	if err := e.dir.life.enter(); err != nil {
		return status{}, err
	}
	defer e.dir.life.leave()
	if err := e.dir.r.tenure.holds(); err != nil {
		return status{}, err
	}
	return e.look()
}

// look asks for the entry's metadata in a directory that is sure to be open.
func (e *Entry) look() (status, error) {
	r := e.dir.r
	if r.deny != nil {
		in := e.place()
		if err := in.admitLeaf(); err != nil {
			return status{}, err
		}
	}
	stay := r.policy.Mounts == MountsStay
	st, err := r.sys.stat(e.dir.h, e.name, stay)
	if err == nil && stay && !st.onMount(r.mount) {
		err = ErrMount
	}
	return st, err
}

// place is a call at the entry.
func (e *Entry) place() call {
	return call{r: e.dir.r, verb: &verbWalk, g: &grantedCall{at: e.dir.at}, place: place{dir: e.dir.h, leaf: e.name}}
}

// Open opens the entry for reading, under the rules of Root.OpenView. A link is
// ErrSymlink, whatever the policy follows.
func (e Entry) Open() (*File, error) {
	if e.dir == nil {
		return nil, &fs.PathError{Op: verbViewRead.name, Err: errNoEntry}
	}
	var c call
	if err := c.begin(e.dir.r, &verbViewRead, e.Path()); err != nil {
		return nil, err
	}
	defer c.end()
	h, err := c.openEntry(e, forRead|c.cautious())
	if err != nil {
		return nil, c.fail(err)
	}
	return c.view(h, forRead), nil
}

func (c *call) openEntry(e Entry, how openHow) (handle, error) {
	if err := e.dir.life.enter(); err != nil {
		return noHandle, err
	}
	defer e.dir.life.leave()
	c.dir, c.leaf = e.dir.h, e.name
	if c.g != nil {
		c.g.at = e.dir.at
	}
	if err := c.admitLeaf(); err != nil {
		return noHandle, err
	}
	h, err := c.openLeaf(how)
	if err != nil {
		if maybeLink(err) {
			err = ErrSymlink
		}
		return noHandle, c.explainLeaf(err)
	}
	_, err = c.positionOf(h)
	if err == nil {
		_, err = c.admitOpen(h, how)
	}
	if err != nil {
		c.r.sys.close(h)
		return noHandle, err
	}
	return h, nil
}

// Walk visits everything below the directory name, which is found as by
// ReadDir; the start itself is not visited. Children are opened relative to the
// directory that listed them, so no rename leads a walk out of the root. An
// entry that vanishes is passed over. A directory that a grant denies is seen,
// Truncated, and not entered.
//
// One worker needs memory for a few directory reads and holds at most 50
// descriptors; a tree deeper than that costs memory for the names beside the
// path to it. Several workers need that each, and hold the directories of up to
// three batches of entries each, at most 16 a batch, until the loop has seen them.
//
// The walk is a call in flight until the loop ends: Close of the root in the
// body of the loop waits for ever. Leave the loop before; Revoke may be called in it.
func (r *Root) Walk(ctx context.Context, name string, o WalkOptions) iter.Seq2[Entry, error] {
	return r.walk(ctx, name, o, nil)
}

// walk is Walk from a directory that is held, when start says which.
func (r *Root) walk(ctx context.Context, name string, o WalkOptions, start *status) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var c call
		if err := c.begin(r, &verbWalk, name); err != nil {
			yield(r.unlisted(name), err)
			return
		}
		defer c.end()
		if err := admitContext(ctx, o.valid()); err != nil {
			yield(r.unlisted(name), c.fail(err))
			return
		}
		w := walking{c: &c, o: o, done: ctx.Done(), cause: func() error { return context.Cause(ctx) }}
		first, err := w.begin(start)
		if err != nil {
			yield(r.unlisted(name), c.fail(err))
			return
		}
		if o.Workers > 1 && !o.Sorted {
			w.parallel(first, yield)
			return
		}
		s := strand{w: &w}
		defer s.unwind()
		s.start(first)
		for {
			e, err, more := s.next()
			w.note(err)
			if !more || !yield(e, err) || err != nil && w.fatal(err) {
				return
			}
		}
	}
}

// Entries lists a directory in the order of the file system without keeping it
// in memory: a Walk that enters nothing.
func (r *Root) Entries(ctx context.Context, name string) iter.Seq2[Entry, error] {
	return r.Walk(ctx, name, WalkOptions{MaxDepth: 1, Truncate: true})
}

// WalkDir walks the tree at name as fs.WalkDir does: in lexical order, name
// itself first, with fs.SkipDir and fs.SkipAll. The paths it passes are below
// the root. Links are not entered; a mount point is entered if the policy
// crosses it. What vanishes before it is entered is passed over, and so is what a
// grant denies, without a second call. An fs.DirEntry that it passes may be an
// Entry. Without fn it returns ErrOption.
func (r *Root) WalkDir(name string, fn fs.WalkDirFunc) error {
	if fn == nil {
		return r.refuse(&verbWalk, name, errNoFunction)
	}
	at := pathsafe.Canonical(name)
	info, err := r.Stat(name)
	if err != nil {
		err = fn(at, nil, err)
	} else {
		d := fs.FileInfoToDirEntry(info)
		if err = fn(at, d, nil); err == nil && info.IsDir() {
			err = r.walkDir(name, d, fn)
		}
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

func (r *Root) walkDir(name string, d fs.DirEntry, fn fs.WalkDirFunc) error {
	var c call
	if err := c.begin(r, &verbWalk, name); err != nil {
		return fn(pathsafe.Canonical(name), d, err)
	}
	defer c.end()
	w := walking{c: &c, o: WalkOptions{Sorted: true, Mounts: r.policy.Mounts, InlineErrors: true}}
	first, err := w.begin(nil)
	if err != nil {
		return fn(pathsafe.Canonical(name), d, c.fail(err))
	}
	s := strand{w: &w}
	defer s.unwind()
	s.start(first)
	for {
		e, err, more := s.next()
		if w.note(err); !more {
			return nil
		}
		switch err = fn(e.Path(), e, err); {
		case err == fs.SkipDir:
			s.skip(e)
		case err != nil:
			return err
		}
	}
}

// walkDir is a directory that a walk has opened. Its handle is closed when
// nothing that refers to it is in use any more.
type walkDir struct {
	r      *Root
	parent *walkDir
	name   string
	path   string // below the root; "" is the root, and for a long one ask fullPath
	depth  int
	linked bool // entered through a link
	at     denyAt
	h      handle
	life   lifetime
	users  atomic.Int32
}

// maxPathKept bounds what a deep walk keeps of the path of each directory.
const maxPathKept = 1024

func (d *walkDir) child(name string, h handle) *walkDir {
	sub := &walkDir{r: d.r, parent: d, name: name, depth: d.depth + 1, h: h}
	if len(d.path) < maxPathKept && (d.path != "" || d.parent == nil) {
		sub.path = joinCanonical(d.path, name)
	}
	sub.users.Store(1)
	return sub
}

// reopened is the same directory under a new handle.
func (d *walkDir) reopened(h handle) *walkDir {
	again := &walkDir{r: d.r, parent: d.parent, name: d.name, path: d.path, depth: d.depth, linked: d.linked, at: d.at, h: h}
	again.users.Store(1)
	return again
}

func (d *walkDir) fullPath() string {
	if d.path != "" || d.parent == nil {
		return d.path
	}
	size, top := 0, d
	for ; top.path == "" && top.parent != nil; top = top.parent {
		size += 1 + len(top.name)
	}
	buf := make([]byte, len(top.path)+size)
	copy(buf, top.path)
	for end := len(buf); d != top; d = d.parent {
		end -= len(d.name)
		copy(buf[end:], d.name)
		end--
		buf[end] = '/'
	}
	return string(buf)
}

// release ends one use of the directory; the last one closes it.
func (d *walkDir) release() {
	if d.users.Add(-1) == 0 && d.life.close() {
		d.r.sys.close(d.h)
	}
}
