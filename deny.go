package caproot

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/pathsafe"
)

// denied is what a Root withholds, and where in it the Root's directory is.
type denied struct {
	list  *denyList
	start denyAt
}

// denyList is made with a grant and not changed afterwards.
type denyList struct {
	objects map[fileNumber]denyObject
}

type fileNumber struct{ dev, ino uint64 }

// denyObject is an object that was there when the list was made.
type denyObject struct {
	node *denyNode
	id   identity.ID
}

// denyNode is a name in the tree of denied names: withheld itself, or on the
// way to one that is.
type denyNode struct {
	withheld bool
	names    map[string]*denyNode // by pathsafe.Key
}

// name finds a name below n. A spelling that Windows, or a volume of its kind,
// takes for a denied name is that name.
func (n *denyNode) name(s string) *denyNode {
	if n == nil || len(n.names) == 0 {
		return nil
	}
	if next := n.names[pathsafe.Key(s)]; next != nil {
		return next
	}
	file, _, _ := strings.Cut(s, ":")
	if file = strings.TrimRight(file, ". "); file != "" && file != s {
		return n.names[pathsafe.Key(file)]
	}
	return nil
}

// denyAt is where a path has come to: by its names from the start, and by its
// names from the last object on the way that the list knows.
type denyAt struct{ named, known *denyNode }

func (at denyAt) name(s string) denyAt { return denyAt{at.named.name(s), at.known.name(s)} }

// admit returns ErrPolicy for what is withheld.
func (at denyAt) admit() error {
	if at.named != nil && at.named.withheld || at.known != nil && at.known.withheld {
		return errDenied
	}
	return nil
}

// leads tells whether a denied name is below.
func (at denyAt) leads() bool { return at.named != nil || at.known != nil }

var (
	errDenied   = because(ErrPolicy, "denied by the grant")
	errWayThere = because(ErrPolicy, "leads to a name that the grant denies")
)

// mayKnow tells whether an object needs a closer look.
func (l *denyList) mayKnow(st *status) bool {
	_, ok := l.objects[fileNumber{st.dev, st.ino}]
	return ok || st.ino == 0
}

// object moves at to what the list knows of an open object. An object without
// a number could be any, so it is refused.
func (l *denyList) object(sys system, at denyAt, h handle, st *status) (denyAt, error) {
	if st.ino == 0 {
		return at, because(ErrPolicy, "an object without identity may be denied")
	}
	if o, ok := l.objects[fileNumber{st.dev, st.ino}]; ok && !(o.node.withheld && successor(sys, h, o.id)) {
		at.known = o.node
	}
	return at, at.admit()
}

// successor tells whether h is proved to be another object that was given the
// number of a denied one after that was gone. A difference alone is no proof: a
// birth time changes when overlay copies a file up.
func successor(sys system, h handle, was identity.ID) bool {
	counter, ok := unfenced(sys).(useCounter)
	if !ok || !counter.countsUses(h) {
		return false
	}
	now, err := sys.identify(h)
	if err != nil {
		return false
	}
	v, why := identity.Compare(was, now)
	return v == identity.Different && (why == identity.ByHandle || why == identity.ByGeneration)
}

// denyTrail goes along with a walker's stack.
type denyTrail struct {
	list *denyList
	at   []denyAt // of the root and of each directory of the stack
}

// denyAt is the position of here().
func (w *walker) denyAt() denyAt {
	if w.deny == nil {
		return denyAt{}
	}
	return w.deny.at[w.depth]
}

// admitDir decides on a directory, just opened as name, that the walk is about
// to enter.
func (w *walker) admitDir(dir handle, name string, st *status) error {
	var err error
	at := w.denyAt().name(name)
	if err := at.admit(); err != nil {
		return err
	}
	if at, err = w.deny.list.object(w.sys, at, dir, st); err != nil {
		return err
	}
	w.deny.at = append(w.deny.at[:w.depth+1], at)
	return nil
}

// admitName decides on a name before it is looked up.
func (w *walker) admitName(name string) error {
	if w.deny == nil {
		return nil
	}
	return w.denyAt().name(name).admit()
}

// admitPath decides on a missing directory before it is made, and by the names
// alone on what is going to be looked for from there: a refusal later would
// leave the directory.
func (w *walker) admitPath(name string) error {
	if w.deny == nil {
		return nil
	}
	way := slices.Clone(w.deny.at[:w.depth+1])
	path := joinCanonical(w.rest, w.goal)
	for ; name != ""; name, path = pathsafe.Next(path, w.profile) {
		switch {
		case name != "..":
			at := way[len(way)-1].name(name)
			if err := at.admit(); err != nil {
				return err
			}
			way = append(way, at)
		case len(way) > 1:
			way = way[:len(way)-1]
		}
	}
	if w.goal != "" && way[len(way)-1].leads() {
		return errWayThere
	}
	return nil
}

// takes tells whether a verb gives the named object away or puts another in
// its place. On the way to a denied name that would leave the name without it,
// and a file made there would keep it from ever coming to be.
func (v *verb) takes() bool {
	return v.makes || v.needs&(Remove|Move|Link|Symlink) != 0 && !v.inside
}

// admitNew decides on a file that an open is about to make.
func (c *call) admitNew() error {
	if c.r.deny != nil && c.g.at.name(c.leaf).leads() {
		return errWayThere
	}
	return nil
}

// admitLeaf decides on the name of the place and on the object it names.
func (c *call) admitLeaf() error {
	if c.r.deny == nil || c.leaf == "." {
		return nil
	}
	return c.admitNamed()
}

func (c *call) admitNamed() error {
	at := c.g.at.name(c.leaf)
	if err := at.admit(); err != nil {
		return err
	}
	if c.verb.takes() && at.leads() {
		return errWayThere
	}
	st, err := c.r.sys.stat(c.dir, c.leaf, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !c.r.deny.list.mayKnow(&st) {
		return err
	}
	h, err := c.r.sys.open(c.dir, c.leaf, pathOnly, 0)
	if err != nil {
		return err
	}
	defer c.r.sys.close(h)
	return c.admitHeld(h)
}

// admitHeld decides on an open object that the place names.
func (c *call) admitHeld(h handle) error {
	if c.r.deny == nil {
		return nil
	}
	at, err := c.positionOf(h)
	if err == nil && c.verb.takes() && at.leads() {
		err = errWayThere
	}
	return err
}

// admitEntry decides on a name in a directory that was opened at the place.
func (c *call) admitEntry(dir handle, name string) error {
	if c.r.deny == nil {
		return nil
	}
	at, err := c.positionOf(dir)
	if err != nil {
		return err
	}
	in := call{r: c.r, verb: c.verb, g: &grantedCall{at: at}, place: place{dir: dir, leaf: name}}
	return in.admitNamed()
}

// positionOf is where an object is that was opened at the place of the call.
// It returns ErrPolicy when it is denied.
func (c *call) positionOf(h handle) (denyAt, error) {
	if c.r.deny == nil {
		return denyAt{}, nil
	}
	if c.leaf == "." {
		return c.g.at, nil
	}
	at := c.g.at.name(c.leaf)
	if err := at.admit(); err != nil {
		return at, err
	}
	st, err := c.r.sys.stat(h, "", false)
	if err != nil {
		return at, err
	}
	return c.r.deny.list.object(c.r.sys, at, h, &st)
}
