package caproot

import (
	"os"
	"syscall"
	"time"
)

// copySource is an open file that is copied.
type copySource struct {
	sys   system
	h     handle
	st    status // before the copy
	limit int64
	// still sees that the file has its name yet.
	still func(st *status) error
	root  *Root   // entered as long as h is open; nil if the caller has seen to that
	grant *tenure // nil: nobody can revoke it
	share share   // of what a tree may have
}

func (f *copySource) Close() error {
	if f.root != nil {
		defer f.root.leave()
	}
	return f.sys.close(f.h)
}

func (src *Source) open() (*copySource, error) {
	if src.Root == nil {
		return openCopyFile(src.File)
	}
	var c call
	if err := c.begin(src.Root, &verbRead, src.Name); err != nil {
		return nil, err
	}
	defer c.end()
	h, err := c.open(forRead|nonBlocking, 0)
	if err != nil {
		return nil, c.fail(c.explainOpen(err))
	}
	f := &copySource{sys: c.r.sys, h: h, limit: c.r.policy.MaxReadBytes, still: src.still}
	if err = f.look(); err == nil {
		err = c.admitRead(&f.st)
	}
	if err == nil {
		if err = c.r.enter(); err == nil {
			f.root = c.r
		}
	}
	if err != nil {
		f.Close()
		return nil, c.fail(err)
	}
	c.gives(f)
	return f, nil
}

// still resolves the name again.
func (src *Source) still(st *status) error {
	now, err := src.Root.statNow(src.Name)
	return sameSource(&now, st, cause(err))
}

// sameSource compares what the source's name leads to after the copy. An error
// that says nothing about the name stays what it is.
func sameSource(now, st *status, err error) error {
	switch Code(err) {
	case "":
		if now.sameNumbers(st) {
			return nil
		}
	case "not-exist", "not-dir", "loop", "symlink", "escape", "mount", "changed":
	default:
		return err
	}
	return because(ErrChanged, "the source's name leads elsewhere by now")
}

func (r *Root) statNow(name string) (status, error) {
	var c call
	if err := c.beginQuiet(r, &verbRead, name); err != nil {
		return status{}, err
	}
	defer c.end()
	return c.stat()
}

func openCopyFile(file *os.File) (*copySource, error) {
	if noFile(file) {
		return nil, errNoHandle
	}
	h, err := dupFile(file)
	if err != nil {
		return nil, err
	}
	f := &copySource{sys: hostSystem(), h: h, limit: NoLimit, still: func(*status) error { return nil }}
	if err := f.look(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// look refuses what is no regular file: the size of others means nothing.
func (f *copySource) look() (err error) {
	f.st, err = f.sys.stat(f.h, "", false)
	switch {
	case err != nil:
	case f.st.isDir():
		err = syscall.EISDIR
	case !f.st.isRegular():
		err = ErrSpecial
	case f.st.size > f.limit:
		err = ErrTooLarge
	}
	return err
}

// The ticks of file systems that keep whole seconds (FAT: every other one), or
// hundredths (exFAT).
const (
	secondTick    = 2 * time.Second
	hundredthTick = 20 * time.Millisecond
)

// settle waits until a change shows in the times of the source.
func (f *copySource) settle() error {
	before := f.st
	if !before.waitTick() {
		return nil
	}
	if err := f.look(); err != nil || f.st.sameContent(&before) {
		return err
	}
	return errChanging
}

var errChanging = because(ErrChanged, "the source is being changed")

// waitTick waits for the end of the tick in which an object was changed, and reports
// whether it had to. The clock that files are stamped by stands still between two
// ticks: within that of its last change an object could be changed again, and look
// as it did. Why: docs/adr/0041-moves-wait-a-tick.md.
func (s *status) waitTick() bool {
	last, tick := s.ctime, fineTick()
	if last == (stamp{}) {
		last = s.mtime
	}
	switch {
	case last.nsec == 0:
		tick = secondTick
	case last.nsec%1e7 == 0:
		tick = max(tick, hundredthTick)
	}
	age := time.Since(last.time())
	if age >= tick || age <= -tick {
		return false
	}
	time.Sleep(tick - max(age, 0))
	return true
}

// unchanged looks again after the copy.
func (f *copySource) unchanged() error {
	now, err := f.sys.stat(f.h, "", false)
	if err != nil {
		return err
	}
	changed := now.size != f.st.size || now.mtime != f.st.mtime || now.ctime != f.st.ctime
	// A name that goes changes the file too.
	if err = f.still(&f.st); changed && err != errVanished {
		return because(ErrChanged, "the source was changed while it was copied")
	}
	return err
}
