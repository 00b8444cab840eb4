package caproot

import (
	"slices"

	"github.com/caproot/caproot/identity"
)

// maxFirst bounds how many files with further names to come a copy keeps open.
const maxFirst = 64

// firstName is the name under which a file with several was copied.
type firstName struct {
	name string
	done chan struct{}
	ok   bool
	st   status      // of the source, when it was copied
	left uint64      // names to come
	pin  handle      // of the source: while it is open nothing else gets its number
	id   identity.ID // when there is no pin
}

// firstNames are the files with several names that were met, by their numbers.
// The walk's goroutine alone uses them.
type firstNames struct {
	sys  system
	all  map[[2]uint64]*firstName
	pins []*firstName // those with a pin
}

var errUnprovedName = because(ErrUnsupported, "nothing proves that a name is of the file that was copied")

// firstName looks a file with several names up. It is nil for a file of its own.
func (t *treeCopy) firstName(f *copySource, name string) (first *firstName, mine bool, err error) {
	if f.st.nlink < 2 || t.o.Hardlinks == LinksSkip {
		return nil, false, nil
	}
	if t.o.Hardlinks == LinksFail {
		return nil, false, ErrHardlink
	}
	first = t.names.all[[2]uint64{f.st.dev, f.st.ino}]
	if first != nil {
		switch t.names.prove(first, f) {
		case identity.Same:
			return first, false, nil
		case identity.Unknown:
			if t.took != nil {
				return nil, false, errUnprovedName // a move breaks no links
			}
		}
	}
	return t.names.add(f, name), true, nil
}

// prove tells whether f, which is open, is the file that was copied, as it was
// copied. Numbers alone prove nothing: a file that is gone leaves its own to others.
func (n *firstNames) prove(first *firstName, f *copySource) identity.Verdict {
	if !f.st.sameNumbers(&first.st) || !f.st.sameContent(&first.st) {
		return identity.Different
	}
	if first.pin == noHandle {
		id, err := f.sys.identify(f.h)
		if err != nil {
			return identity.Unknown
		}
		if v, _ := identity.Compare(first.id, id); v != identity.Same {
			return v
		}
	}
	if first.left--; first.left == 0 { // a further one would have changed the file
		n.unpin(first)
		delete(n.all, [2]uint64{first.st.dev, first.st.ino})
	}
	return identity.Same
}

// sameContent compares what a change of the content changes.
func (s *status) sameContent(o *status) bool {
	return s.size == o.size && s.mtime == o.mtime && s.ctime == o.ctime
}

// add makes f, which is going to be copied, the one that further names are of.
func (n *firstNames) add(f *copySource, name string) *firstName {
	first := &firstName{name: name, done: make(chan struct{}), st: f.st, left: f.st.nlink - 1}
	if n.all == nil {
		n.sys, n.all = f.sys, map[[2]uint64]*firstName{}
	}
	key := [2]uint64{f.st.dev, f.st.ino}
	if old := n.all[key]; old != nil {
		n.unpin(old)
	}
	n.all[key] = first
	first.pin = noHandle
	if len(n.pins) < maxFirst {
		if h, err := n.sys.dup(f.h); err == nil {
			first.pin, n.pins = h, append(n.pins, first)
			return first
		}
	}
	first.id, _ = n.sys.identify(f.h) // what is not known decides nothing
	return first
}

// unpin lets go of the source of a first name that is not asked for any more.
func (n *firstNames) unpin(first *firstName) {
	for i, p := range n.pins {
		if p == first {
			n.pins = slices.Delete(n.pins, i, i+1)
			n.sys.close(first.pin)
			first.pin = noHandle
			return
		}
	}
}

func (n *firstNames) letGo() {
	for _, first := range n.pins {
		n.sys.close(first.pin)
	}
	n.pins = nil
}
