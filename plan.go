package caproot

import (
	"cmp"
	"errors"
	"io/fs"
	"syscall"

	"github.com/caproot/caproot/pathsafe"
)

// verb is what the plan must know of a public method.
type verb struct {
	name    string
	needs   Rights
	changes bool // links by MutationLinks, not Links
	traced  bool // wants the canonical path: a receipt will tell it
	exports bool // hands out an *os.File, whose type must be known
	inside  bool // works in the directory that is named
	relinks bool // gives links a new place
	makes   bool // puts a file at the name, whatever has it
	leaf    bool // acts on the name itself, be it a link
}

// call is one public method at work: its checks, its place, its errors. It
// lives on the stack of that method:
//
//	var c call
//	if err := c.begin(r, &verbMkdir, name); err != nil { return err }
//	defer c.end()
type call struct {
	r     *Root
	verb  *verb
	name  string
	shape pathsafe.Shape
	place
	noFollow bool         // a link in the last component is refused whatever the rule
	fresh    bool         // the caller wants a new file, and a link is none
	held     int          // directories that a walk may hold; 0: maxHeld
	g        *grantedCall // nil when the root is not a grant
}

// place is a directory held open and a component in it.
type place struct {
	dir         handle
	owned       bool // dir is closed with the call
	leaf        string
	parent      string // canonical path of dir, when the verb is traced
	containment Containment
	judged      fileNumber // of the object that was decided on, if any
}

func (p *place) canonical() string { return joinCanonical(p.parent, p.leaf) }

// begin takes the call in: root open, verb allowed, spelling acceptable.
func (c *call) begin(r *Root, v *verb, name string) error { return c.beginIn(r, v, name, name) }

// beginQuiet is begin for a part of another call, which tells how it ended.
func (c *call) beginQuiet(r *Root, v *verb, name string) error {
	if r.opened() && r.tenure.parent != nil {
		c.g = &grantedCall{quiet: true}
	}
	return c.begin(r, v, name)
}

// beginIn is begin for a call about name that goes by the way at.
func (c *call) beginIn(r *Root, v *verb, name, at string) error {
	if err := c.enter(r, v, name); err != nil {
		return err
	}
	if err := c.admit(at); err != nil {
		defer r.leave()
		return c.turnAway(err)
	}
	return nil
}

// enter is begin for a call that asks nothing of the policy.
func (c *call) enter(r *Root, v *verb, name string) error {
	c.r, c.verb, c.name = r, v, name
	if !r.opened() {
		return c.fail(errNoRoot)
	}
	if r.tenure.parent != nil && c.g == nil {
		c.g = new(grantedCall)
	}
	if err := r.enter(); err != nil {
		return c.turnAway(err)
	}
	return nil
}

func (c *call) turnAway(err error) error {
	err = c.fail(err)
	c.report()
	return err
}

// refuse is the answer of a verb that does not begin.
func (r *Root) refuse(v *verb, name string, err error) error {
	c := call{r: r, verb: v, name: name}
	if r.opened() && r.tenure.parent != nil {
		c.g = new(grantedCall)
	}
	return c.turnAway(err)
}

func (c *call) admit(spelling string) error {
	p := &c.r.policy
	if p.Rights&c.verb.needs != c.verb.needs {
		return because(ErrPolicy, c.verb.name+" needs a right the root does not have")
	}
	if err := c.bound(); err != nil {
		return err
	}
	var err error
	if c.shape, err = pathsafe.Parse(spelling, p.Names); err != nil {
		return nameError(err)
	}
	return nil
}

// bound returns ErrChanged when the policy binds the root to its path and that
// names another directory by now.
func (c *call) bound() error {
	if c.r.policy.Bind != BindPath {
		return nil
	}
	return c.r.bound.check(c.r.sys)
}

// nameError gives a refused spelling its cause: leaving the root by an
// absolute form is an escape, everything else a bad name.
func nameError(err error) error {
	var e *pathsafe.Error
	if errors.As(err, &e) {
		switch e.Rule {
		case pathsafe.Absolute, pathsafe.UNC, pathsafe.DevicePath, pathsafe.Drive:
			return &detail{ErrEscape, e.Error(), err}
		}
	}
	return &detail{ErrName, err.Error(), err}
}

// end lets go of the place and of the root.
func (c *call) end() {
	defer c.r.leave()
	c.leavePlace()
	if c.g == nil {
		return
	}
	if c.tells() {
		if thrown := recover(); thrown != nil {
			c.note(errPanicked)
			defer panic(thrown)
		} else if exiting() {
			c.note(errExited)
		}
	}
	c.refund()
	c.report()
}

func (c *call) leavePlace() {
	if c.owned {
		c.r.sys.close(c.dir)
		c.owned = false
	}
}

// fail wraps an error once, with the caller's own spelling.
func (c *call) fail(err error) error {
	if err == nil {
		return nil
	}
	err = badName(err)
	c.note(err)
	return &fs.PathError{Op: c.verb.name, Path: c.name, Err: err}
}

// note keeps how the call ended for those who are told.
func (c *call) note(err error) {
	if c.g != nil {
		c.g.outcome = err
	}
}

// traced tells whether the call must know its canonical path.
func (c *call) traced() bool {
	return c.verb.traced || c.verb.changes && c.r.tenure.asks || c.verb.relinks && c.r.policy.LinkTargets == TargetsInside
}

func (c *call) links() LinkRule {
	if c.verb.changes {
		return c.r.policy.MutationLinks
	}
	return c.r.policy.Links
}

// follows tells whether a link in the last component is followed.
func (c *call) follows() bool {
	return c.links() >= LinksFollow && !c.noFollow && !c.fresh && !c.verb.leaf
}

func (c *call) walker() walker {
	p := &c.r.policy
	w := walker{
		sys: c.r.sys, root: c.r.dir, stay: p.Mounts == MountsStay, mount: c.r.mount,
		profile: p.Names, links: c.links(), held: cmp.Or(c.held, maxHeld),
	}
	if c.r.deny != nil {
		w.deny = &denyTrail{c.r.deny.list, []denyAt{c.r.deny.start}}
	}
	return w
}

func (c *call) beneathRule() (rule beneathRule) {
	switch c.links() {
	case LinksRefuse:
		rule = noSymlinks
	case LinksResolveInRoot:
		rule = clampToRoot
	}
	if c.r.policy.Mounts == MountsStay {
		rule |= noMounts
	}
	return rule
}

// toParent finds the directory of the last component, for a verb that acts on
// that name. A spelling without a last component of its own is ErrName.
func (c *call) toParent() error {
	switch c.shape.Leaf {
	case "":
		return because(ErrName, "names the root itself")
	case "..":
		return because(ErrName, `ends in ".."`)
	}
	c.leaf = c.shape.Leaf
	if first, _ := pathsafe.Next(c.shape.Parent, c.r.policy.Names); first == "" {
		c.dir, c.parent = c.r.dir, ""
		if c.r.deny != nil {
			c.g.at = c.r.deny.start
		}
		return c.admitLeaf()
	}
	if c.nearby() {
		return c.toNear()
	}
	if c.r.beneath != nil && c.r.deny == nil && !(c.traced() && c.shape.DotDot) {
		rule := c.beneathRule()
		if c.traced() {
			rule |= noSymlinks
		}
		dir, err := c.r.beneath.openBeneath(c.r.dir, c.shape.Parent, pathOnly|directoryOnly|followLeaf, 0, rule)
		if err == nil {
			c.dir, c.owned, c.containment = dir, true, KernelAtomic
			if c.traced() {
				c.parent = pathsafe.Canonical(c.shape.Parent)
			}
			return nil
		}
		if !undecided(err) {
			return err
		}
	}
	w := c.walker()
	if err := c.walkTo(&w, c.shape.Parent); err != nil {
		return err
	}
	return c.admitLeaf()
}

// undecided is true for an answer of the kernel's resolver that has several
// causes. The walker finds out which.
func undecided(err error) bool {
	return err == syscall.EXDEV || err == syscall.ENAMETOOLONG || maybeLink(err)
}

// walkTo enters every component of path and makes the last one the place.
func (c *call) walkTo(w *walker, path string) error {
	defer w.close()
	w.rest = path
	for {
		leaf, err := w.toLeaf()
		if err != nil {
			return err
		}
		if leaf == "" {
			return c.settle(w)
		}
		if err := w.enter(leaf); err != nil {
			return err
		}
	}
}

// settle takes over the directory a walk ended in.
func (c *call) settle(w *walker) error {
	c.dir, c.owned, c.containment, c.parent = c.r.dir, false, KernelAtomic, ""
	if w.deny != nil {
		c.g.at = w.denyAt()
	}
	if w.depth == 0 {
		return nil
	}
	confirm := c.r.policy.Containment != Walked
	if c.traced() || confirm {
		c.parent = w.canonical()
	}
	c.dir, c.owned, c.containment = w.release(), true, Walked
	if !confirm {
		return nil
	}
	return c.confirm()
}

// confirm has the kernel resolve the canonical path that a walk found, and
// accepts it if it is the same directory.
func (c *call) confirm() error {
	dir, err := c.r.beneath.openBeneath(c.r.dir, c.parent, pathOnly|directoryOnly|followLeaf, 0, c.beneathRule()|noSymlinks)
	if err != nil {
		if undecided(err) && err != syscall.ENAMETOOLONG {
			return ErrUnstable
		}
		return err
	}
	walked, werr := c.r.sys.stat(c.dir, "", false)
	atomic, aerr := c.r.sys.stat(dir, "", false)
	c.r.sys.close(c.dir)
	c.dir, c.containment = dir, KernelAtomic
	if err := errors.Join(werr, aerr); err != nil {
		return err
	}
	if !walked.sameNumbers(&atomic) {
		return ErrUnstable
	}
	return nil
}

// open opens the object that the whole name leads to. A last component that
// is a link is followed only if the rule of the verb is LinksFollow or more.
func (c *call) open(how openHow, perm fs.FileMode) (handle, error) {
	if c.follows() {
		how |= followLeaf
	}
	if c.shape.MustDir {
		how |= directoryOnly
	}
	if c.placed() {
		return c.openPlaced(how, perm)
	}
	if c.r.beneath == nil {
		return c.walkOpen(how, perm)
	}
	first := how
	if how&(creating|exclusive) == creating {
		// The kernel makes nothing through a link, whose text may be the name of a stage.
		first &^= followLeaf
	}
	h, err := c.r.beneath.openBeneath(c.r.dir, c.shape.Path, first, perm, c.beneathRule())
	switch {
	case err == nil || !undecided(err):
		return h, err
	case first != how:
		return c.openOrFollow(how, perm)
	}
	return c.openAgain(how, perm)
}

// placed tells whether the place of an object must be known before it is opened.
func (c *call) placed() bool { return c.r.deny != nil || c.verb.changes && c.r.tenure.meters() }

// openAgain asks the walker about an undecided answer. If the walk succeeds
// after all, something changed meanwhile; where the policy wants the kernel's
// word, the kernel is asked again.
func (c *call) openAgain(how openHow, perm fs.FileMode) (handle, error) {
	if c.r.policy.Containment == Walked {
		return c.walkOpen(how, perm)
	}
	for range maxRaces {
		h, err := c.walkOpen(pathOnly|how&(followLeaf|directoryOnly), 0)
		if err != nil {
			return noHandle, err
		}
		c.r.sys.close(h)
		h, err = c.r.beneath.openBeneath(c.r.dir, c.shape.Path, how, perm, c.beneathRule())
		if err == nil || !undecided(err) || err == syscall.ENAMETOOLONG {
			return h, err
		}
	}
	return noHandle, ErrUnstable
}
