package caproot

import (
	"errors"
	"io/fs"
	"maps"

	"github.com/caproot/caproot/pathsafe"
)

// withhold adds names to what the Root withholds. What it inherits is copied
// first: the list of another Root does not change.
func (r *Root) withhold(names []string) error {
	if len(names) == 0 {
		return nil
	}
	b := withholding{r: r, list: &denyList{map[fileNumber]denyObject{}}, start: &denyNode{}}
	if r.deny != nil {
		copied := map[*denyNode]*denyNode{}
		for number, o := range r.deny.list.objects {
			b.list.objects[number] = denyObject{o.node.clone(copied), o.id}
		}
		b.start.take(r.deny.start.named.clone(copied), map[*denyNode]bool{})
		b.start.take(r.deny.start.known.clone(copied), map[*denyNode]bool{})
	}
	if err := b.know(r.dir, &b.start); err != nil {
		return err
	}
	for _, name := range names {
		if err := b.add(name); err != nil {
			return err
		}
	}
	r.deny = &denied{b.list, denyAt{named: b.start}}
	return nil
}

func (n *denyNode) clone(copied map[*denyNode]*denyNode) *denyNode {
	if n == nil || copied[n] != nil {
		return copied[n]
	}
	c := &denyNode{withheld: n.withheld}
	copied[n] = c
	for key, next := range n.names {
		c.put(key, next.clone(copied))
	}
	return c
}

func (n *denyNode) put(key string, next *denyNode) {
	if n.names == nil {
		n.names = map[string]*denyNode{}
	}
	n.names[key] = next
}

// grow finds or makes the name s below n.
func (n *denyNode) grow(s string) *denyNode {
	key := pathsafe.Key(s)
	next := n.names[key]
	if next == nil {
		next = &denyNode{}
		n.put(key, next)
	}
	return next
}

// take adds to n what another node, of the same directory, has. A bind mount
// may make a directory its own descendant, hence seen.
func (n *denyNode) take(o *denyNode, seen map[*denyNode]bool) {
	if o == nil || o == n || seen[o] {
		return
	}
	seen[o] = true
	n.withheld = n.withheld || o.withheld
	for key, next := range maps.Clone(o.names) {
		if mine := n.names[key]; mine != nil {
			mine.take(next, seen)
		} else {
			n.put(key, next)
		}
	}
}

// withholding builds a denyList.
type withholding struct {
	r     *Root
	list  *denyList
	start *denyNode
}

// know notes that node stands for an open object. If the list knows the object
// by another node, node becomes that one.
func (b *withholding) know(h handle, node **denyNode) error {
	st, err := b.r.sys.stat(h, "", false)
	if err != nil {
		return err
	}
	id, err := b.r.sys.identify(h)
	if err != nil {
		return err
	}
	if st.ino == 0 || !id.Known() {
		return because(ErrUnsupported, "the file system gives a denied object no identity")
	}
	number := fileNumber{st.dev, st.ino}
	if o, ok := b.list.objects[number]; ok {
		o.node.take(*node, map[*denyNode]bool{})
		*node = o.node
		return nil
	}
	b.list.objects[number] = denyObject{*node, id}
	return nil
}

// add withholds what name leads to, and the name. It crosses mounts and follows
// links whatever the policy does, as the owner of the name may.
func (b *withholding) add(name string) error {
	p := b.r.policy
	shape, err := pathsafe.Parse(name, p.Names)
	if err != nil {
		return nameError(err)
	}
	if !shape.DotDot {
		b.text(shape.Path)
	}
	w := walker{sys: b.r.sys, root: b.r.dir, profile: p.Names, links: max(LinksFollow, p.Links, p.MutationLinks), held: maxHeld}
	defer w.close()
	w.rest = shape.Path
	for range maxSteps {
		name, rest := pathsafe.Next(w.rest, w.profile)
		w.rest = rest
		switch name {
		case "":
			return b.endIn(&w)
		case "..":
			err = w.up()
		default:
			done, serr := b.step(&w, name)
			if done {
				return serr
			}
			err = serr
		}
		if errors.Is(err, ErrEscape) && !shape.DotDot {
			return nil // a link leads out, and its name is noted
		}
		if err != nil {
			return err
		}
	}
	return ErrUnstable
}

// text withholds a name as it is spelled: a link on its way now may be a
// directory later.
func (b *withholding) text(path string) {
	node := b.start
	for name, rest := pathsafe.Next(path, b.r.policy.Names); name != ""; name, rest = pathsafe.Next(rest, b.r.policy.Names) {
		node = node.grow(name)
	}
	if node != b.start {
		node.withheld = true
	}
}

// step goes on to one name. It is done when the name is withheld.
func (b *withholding) step(w *walker, name string) (done bool, err error) {
	st, err := w.sys.stat(w.here(), name, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, err
	}
	missing := err != nil
	next, _ := pathsafe.Next(w.rest, w.profile)
	switch {
	case !missing && st.isLink():
		node, err := b.way(w)
		if err != nil {
			return true, err
		}
		if link := node.grow(name); next == "" {
			link.withheld = true
		}
		if err = w.follow(name); err == errNotLink {
			w.rest = joinCanonical(name, w.rest) // replaced just now: look again
			err = nil
		}
		return false, err
	case !missing && st.isDir():
		return false, b.enter(w, name)
	case !missing && next == "":
		return true, b.object(w, name)
	}
	return true, b.missing(w, name)
}

// enter goes into a directory, and not through a link that took its name just
// now: then the name would not be noted.
func (b *withholding) enter(w *walker, name string) error {
	dir, err := w.sys.openDir(w.here(), name)
	switch {
	case err == nil:
		return w.push(dir, name)
	case maybeLink(err), errors.Is(err, fs.ErrNotExist):
		w.rest = joinCanonical(name, w.rest) // look again
		return nil
	}
	return err
}

// way notes every directory the walk came through and returns the node of
// here().
func (b *withholding) way(w *walker) (*denyNode, error) {
	node := b.start
	for i := range w.depth {
		s := w.at(i)
		next := node.grow(s.name)
		if s.dir != noHandle {
			if err := b.know(s.dir, &next); err != nil {
				return nil, err
			}
			node.put(pathsafe.Key(s.name), next)
		}
		node = next
	}
	return node, nil
}

// endIn withholds the directory that the walk ended in.
func (b *withholding) endIn(w *walker) error {
	if w.depth == 0 {
		return because(ErrName, "denies the granted directory itself")
	}
	node, err := b.way(w)
	if err == nil {
		node.withheld = true
	}
	return err
}

// object withholds what is no directory.
func (b *withholding) object(w *walker, name string) error {
	node, err := b.way(w)
	if err != nil {
		return err
	}
	h, err := w.sys.open(w.here(), name, pathOnly, 0)
	if err != nil {
		return err
	}
	defer w.sys.close(h)
	leaf := node.grow(name)
	if err := b.know(h, &leaf); err != nil {
		return err
	}
	node.put(pathsafe.Key(name), leaf)
	leaf.withheld = true
	return nil
}

// missing withholds a name that nothing has yet.
func (b *withholding) missing(w *walker, name string) error {
	node, err := b.way(w)
	for rest := w.rest; err == nil && name != ""; name, rest = pathsafe.Next(rest, w.profile) {
		if name == ".." {
			return because(ErrName, `".." after a name that does not exist`)
		}
		node = node.grow(name)
	}
	if err == nil {
		node.withheld = true
	}
	return err
}
