package caproot

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// strand is one way depth first through a tree or a part of it. It holds the
// last directories of its way, a fixed number; an older one is listed to its end and
// let go, and found again as the parent of its child.
type strand struct {
	w       *walking
	crew    *crew // nil: alone
	levels  []walkLevel
	into    Entry // the directory to enter next; its dir is nil for none
	scratch []byte
	over    bool
}

type walkLevel struct {
	entry   Entry // by which it was entered
	dir     *walkDir
	gone    bool   // dir was let go
	st      status // of dir, when it was let go
	pending []direntry
	ended   bool  // there is no more to list
	failed  error // of a listing, still to be told
}

// start makes dir, which the strand takes over, the first level.
func (s *strand) start(dir *walkDir) {
	s.over = false
	s.levels = append(s.levels[:0], walkLevel{entry: Entry{dir: dir, name: ".", mode: fs.ModeDir}, dir: dir})
}

// next returns the next thing to see. more is false at the end of the walk.
func (s *strand) next() (e Entry, err error, more bool) {
	for !s.over {
		if err := s.w.canceled(); err != nil {
			s.over = true
			return s.stop(err)
		}
		if s.into.dir != nil {
			e, s.into = s.into, Entry{}
			if err := s.descend(e); err != nil {
				return e, s.wrap(e, err), true
			}
		}
		if len(s.levels) == 0 {
			break
		}
		top := &s.levels[len(s.levels)-1]
		if len(top.pending) == 0 {
			if err := s.refill(top); err != nil {
				// Of the level above, if it was not found again.
				e := s.levels[len(s.levels)-1].entry
				return e, s.wrap(e, err), true
			}
			continue
		}
		de := top.pending[0]
		top.pending = top.pending[1:]
		if s.w.o.MaxEntries > 0 && s.w.read.Add(1) > s.w.o.MaxEntries {
			return s.exhausted(top)
		}
		e, err, seen := s.consider(top, de)
		if seen || err != nil {
			return e, s.wrap(e, err), true
		}
	}
	return e, nil, false
}

// stop is the last thing to see of a walk that was canceled.
func (s *strand) stop(err error) (Entry, error, bool) {
	if len(s.levels) == 0 {
		return Entry{}, nil, false
	}
	e := s.levels[len(s.levels)-1].entry
	return e, s.wrap(e, err), true
}

// exhausted ends the walk at its budget of entries.
func (s *strand) exhausted(top *walkLevel) (Entry, error, bool) {
	s.over = true
	e := top.entry
	e.cut = true
	if s.w.o.Truncate {
		return e, nil, true
	}
	return e, s.wrap(e, errBudget), true
}

func (s *strand) wrap(e Entry, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: s.w.c.verb.name, Path: e.Path(), Err: err}
}

// consider makes an entry of a name and decides what becomes of it.
func (s *strand) consider(top *walkLevel, de direntry) (e Entry, err error, seen bool) {
	w := s.w
	e = Entry{dir: top.dir, name: de.name, mode: de.mode}
	if !de.typed || w.o.Info {
		st, err := e.look()
		if errors.Is(err, fs.ErrNotExist) {
			return e, nil, false
		}
		if err != nil && (!errors.Is(err, ErrMount) && !errors.Is(err, errDenied) || !de.typed) {
			return e, err, false
		}
		if err == nil {
			e.mode = st.mode.Type()
			if w.o.Info {
				e.st = &st
			}
		}
	}
	step := WalkTake
	if w.o.Filter != nil {
		if step = w.o.Filter(e); step > WalkLeaf {
			return e, inRange(atMost("WalkStep", step, WalkLeaf)), false
		}
	}
	enter := step <= WalkSkip && (e.mode.IsDir() || w.o.FollowLinks && e.mode&fs.ModeSymlink != 0)
	if enter && w.o.Truncate && w.deepest(e.Depth()) {
		e.cut, enter = e.mode.IsDir(), false
	}
	if enter && e.denied() {
		e.cut, enter = true, false
	}
	if enter {
		s.into = e
	}
	return e, nil, e.cut || step == WalkTake || step == WalkLeaf
}

// skip passes over what is still to come of e, just seen: what is in a directory,
// or what is left of the directory that anything else is in.
func (s *strand) skip(e Entry) {
	s.into = Entry{}
	if n := len(s.levels); n > 0 {
		if top := &s.levels[n-1]; !e.mode.IsDir() || e.dir == top.entry.dir && e.name == top.entry.name {
			top.pending, top.ended = nil, true
		}
	}
}

// descend opens a directory and makes it the last level. What has vanished is
// no error, nor is a link that leads to no directory.
func (s *strand) descend(e Entry) error {
	if !e.mode.IsDir() && s.w.deepest(e.Depth()) {
		return nil
	}
	h, at, err := s.w.openDir(e)
	if errors.Is(err, fs.ErrNotExist) || err == errSeen {
		return nil
	}
	if err != nil {
		return err
	}
	dir := e.dir.child(e.name, h)
	dir.linked, dir.at = !e.mode.IsDir(), at
	if s.crew != nil && s.crew.give(dir) {
		return nil
	}
	s.letGo()
	s.levels = append(s.levels, walkLevel{entry: e, dir: dir})
	return nil
}

// refill reads more names of the last level, or leaves it.
func (s *strand) refill(top *walkLevel) error {
	if err := top.failed; err != nil {
		top.failed = nil
		return err
	}
	if top.ended {
		return s.ascend()
	}
	more := s.list(top)
	if len(top.pending) > 0 && s.w.deepest(top.dir.depth) {
		s.over = true
		return errBudget
	}
	limit := s.w.o.MaxEntries
	for s.w.o.Sorted && more && (limit == 0 || int64(len(top.pending)) <= limit) {
		more = s.list(top)
	}
	if s.w.o.Sorted {
		top.ended = true
		slices.SortFunc(top.pending, func(a, b direntry) int { return strings.Compare(a.name, b.name) })
		err := top.failed
		top.failed = nil
		return err
	}
	return nil
}

// list adds the next names of a directory to those pending and reports whether
// there may be more.
func (s *strand) list(l *walkLevel) (more bool) {
	if s.scratch == nil {
		s.scratch = make([]byte, listBytes)
	}
	entries, err := s.w.c.r.sys.list(l.dir.h, s.scratch)
	if l.dir.depth > 0 && errors.Is(err, fs.ErrNotExist) {
		err = nil // it vanished, and has no entries any more
	}
	if len(l.pending) == 0 {
		l.pending = entries
	} else {
		l.pending = append(l.pending, entries...)
	}
	l.failed, l.ended = err, err != nil || len(entries) == 0
	return !l.ended
}

// letGo closes the oldest directory held when there are too many. Its listing
// is read to the end first: where one stood in it means nothing to a new handle.
func (s *strand) letGo() {
	n := len(s.levels) - s.w.held()
	if n < 0 || s.levels[n].gone {
		return
	}
	l := &s.levels[n]
	var err error
	if l.st, err = s.w.c.r.sys.stat(l.dir.h, "", true); err != nil {
		return
	}
	for !l.ended {
		s.list(l)
	}
	l.gone = true
	l.dir.release()
}

// ascend leaves the last level and goes on in the one above.
func (s *strand) ascend() error {
	n := len(s.levels) - 1
	done := &s.levels[n]
	s.levels = s.levels[:n]
	if !done.gone {
		defer done.dir.release()
	}
	if n == 0 || !s.levels[n-1].gone {
		return nil
	}
	up := &s.levels[n-1]
	h, err := s.regain(up, done)
	if err != nil {
		up.pending = nil
		return err
	}
	up.dir, up.gone = up.dir.reopened(h), false
	return nil
}

// regain opens a directory that was let go: as the parent of its child, or by
// its path, and in either case only if it is the same.
func (s *strand) regain(l, child *walkLevel) (h handle, err error) {
	err = ErrChanged
	if !child.gone && !child.dir.linked {
		if h, err = s.w.c.r.sys.open(child.dir.h, "..", openForList, 0); err == nil {
			err = s.same(h, l)
		}
	}
	if err == nil {
		return h, nil
	}
	path := l.dir.fullPath()
	if path == "" {
		path = "."
	}
	if h, _, err = s.w.openPath(path); err != nil {
		// Not wrapped: an ENOENT of the way must not pass for an absent name.
		return noHandle, because(ErrChanged, "a directory was moved while it was walked: "+err.Error())
	}
	return h, s.same(h, l)
}

// same closes an open directory that is not the one that was let go.
func (s *strand) same(h handle, l *walkLevel) error {
	st, err := s.w.c.r.sys.stat(h, "", true)
	if err == nil && !st.sameObject(&l.st) {
		err = because(ErrChanged, "a directory was moved while it was walked")
	}
	if err != nil {
		s.w.c.r.sys.close(h)
	}
	return err
}

// unwind lets go of everything, at the end or when nobody wants to see more.
func (s *strand) unwind() {
	for i := range s.levels {
		if !s.levels[i].gone {
			s.levels[i].dir.release()
		}
	}
	s.levels, s.into = s.levels[:0], Entry{}
}
