package caproot

import (
	"errors"
	"io"
	"io/fs"

	"github.com/caproot/caproot/identity"
)

// Step is one change of the file system, of which a verb may make several. The
// texts are stable.
type Step string

const (
	StepMkdir   Step = "mkdir"   // a directory is made, by Put with Parents too
	StepStage   Step = "stage"   // a file without the target's name is made beside it
	StepPublish Step = "publish" // the stage gets the target's name
	StepOpen    Step = "open"    // a file is opened for writing in place, or made
	StepRemove  Step = "remove"  // a name goes; RemoveAll asks for each
	StepRename  Step = "rename"  // Path gets the name To
	StepLink    Step = "link"    // To becomes a further name of Path
	StepSymlink Step = "symlink" // a symbolic link is made
	StepAttrib  Step = "attrib"  // mode, owner or times change
)

// Mutation is a change that is about to be made. Paths are canonical, below the
// directory of the grant that is asked and as of that grant, without links.
type Mutation struct {
	Verb string // the method, in lower case: "put", "rename", …
	Step Step
	Path string
	To   string // for StepRename and StepLink
	// Parent is the directory that holds Path, Object what Path names now; its
	// zero value says that nothing is there. Displaced is what To names now.
	Parent    identity.ID
	Object    identity.ID
	Displaced identity.ID
}

// refusal is the answer of a Before. It matches the host's error, but never
// fs.ErrNotExist or fs.ErrExist: a refusal must not look like absence.
type refusal struct{ err error }

func (r *refusal) Error() string { return ErrPolicy.Error() + ": " + r.err.Error() }

func (r *refusal) Is(target error) bool {
	if target == fs.ErrNotExist || target == fs.ErrExist {
		return false
	}
	return target == ErrPolicy || target == fs.ErrPermission || errors.Is(r.err, target)
}

// grantedCall is what a call on a grant knows beside its place.
type grantedCall struct {
	outcome  error
	result   io.Closer // what the call hands out
	to       string    // the second name
	quiet    bool      // the call of the first name reports
	found    bool      // the open found the place
	made     bool      // the open made the file
	reserved Budget
	at       denyAt // of the place's directory
}

// permit is passed immediately before each change: the name is no stage's, the
// grant still holds, the new names fit the budget, and whoever is asked agrees.
func (c *call) permit(step Step, files int64) error {
	if err := c.r.unreserved(step, files, &c.place); err != nil {
		return err
	}
	if c.g == nil {
		return c.r.tenure.holds()
	}
	return c.allow(step, files, &c.place)
}

// permitObject is permit for a change of an open object that the place names.
func (c *call) permitObject(step Step, object *status) error {
	c.judge(object)
	if err := c.permit(step, 0); err != nil || c.g == nil || !c.r.tenure.asks {
		return err
	}
	now, err := c.r.sys.stat(c.dir, c.leaf, false)
	if err == nil && !now.sameNumbers(object) {
		err = because(ErrChanged, "the object was replaced meanwhile")
	}
	return err
}

// maker is asked for each directory that a walk makes. It is an interface so
// that the calls of plain roots, which have none, stay on the stack.
type maker interface {
	permitMkdir(at place) error
	settleFile(made bool)
	affords(files int64) error
}

func (c *call) maker() maker {
	if c.g == nil {
		return nil
	}
	return &call{r: c.r, verb: c.verb, name: c.name, g: c.g}
}

func (c *call) permitMkdir(at place) error { return c.permitAt(StepMkdir, 1, &at) }

// permitAt is permit for a change at places other than the call's own, the last
// of which gets a name.
func (c *call) permitAt(step Step, files int64, at ...*place) error {
	if err := c.r.unreserved(step, files, at[len(at)-1]); err != nil {
		return err
	}
	return c.allow(step, files, at...)
}

// unreserved refuses to give the name of a stage to something.
func (r *Root) unreserved(step Step, files int64, at *place) error {
	switch {
	case r.carries, step == StepRemove, step == StepAttrib, step == StepOpen && files == 0:
		return nil
	}
	return unreserved(at.leaf)
}

// allow is permitAt whatever the names are.
func (c *call) allow(step Step, files int64, at ...*place) error {
	if err := c.r.tenure.holds(); err != nil {
		return err
	}
	if err := c.spend(Budget{Files: files}); err != nil {
		return err
	}
	if !c.r.tenure.asks {
		return nil
	}
	return c.ask(step, at)
}

// ask asks every Before, and sees afterwards that the root, the directories
// and the objects are what they were.
func (c *call) ask(step Step, at []*place) error {
	m := Mutation{Verb: c.verb.name, Step: step, Path: at[0].reached()}
	root, err := c.r.position()
	if err != nil {
		return err
	}
	pins := make([]pin, len(at))
	for i, p := range at {
		if pins[i], err = c.pin(p); err != nil {
			return err
		}
		if pins[i].object != noHandle {
			defer c.r.sys.close(pins[i].object)
		}
	}
	if m.Parent, err = c.r.sys.identify(at[0].dir); err == nil {
		m.Object, err = c.identifyPin(&pins[0])
	}
	if len(at) > 1 && err == nil {
		m.To = at[1].reached()
		m.Displaced, err = c.identifyPin(&pins[1])
	}
	if err == nil {
		err = c.r.tenure.ask(c.r.below, m)
	}
	if err == nil {
		err = c.r.tenure.holds()
	}
	if err != nil {
		return err
	}
	now, err := c.r.position()
	if err != nil || now != root {
		return because(ErrChanged, "the root was moved meanwhile")
	}
	for i, p := range at {
		if err := c.still(p, &pins[i]); err != nil {
			return err
		}
	}
	return nil
}

// ask asks this grant and then those above it.
func (t *tenure) ask(dir string, m Mutation) error {
	path, to := m.Path, m.To
	for ; t != nil; t = t.parent {
		if t.before != nil {
			m.Path, m.To = under(dir, path), ""
			if m.Step == StepRename || m.Step == StepLink {
				m.To = under(dir, to)
			}
			if err := t.before(m); err != nil {
				return &refusal{err}
			}
		}
		dir = under(t.at, dir)
	}
	return nil
}

// under is the path name below dir, where "" is the directory itself.
func under(dir, name string) string {
	if name == "" {
		return dir
	}
	return joinCanonical(dir, name)
}

// reached is the canonical path of what the place names.
func (p *place) reached() string {
	if p.leaf == "." {
		return p.parent
	}
	return p.canonical()
}

// pin holds what a place names, so that its number cannot come back as another
// object's while the host is asked.
type pin struct {
	object handle // noHandle: nothing has the name
	st     status
}

func (c *call) pin(p *place) (pin, error) {
	h, err := c.r.sys.open(p.dir, p.leaf, pathOnly, 0)
	if errors.Is(err, fs.ErrNotExist) && p.judged.ino == 0 {
		return pin{object: noHandle}, nil
	}
	if err != nil {
		return pin{object: noHandle}, err
	}
	st, err := c.r.sys.stat(h, "", false)
	if err == nil && p.judged.ino != 0 && p.judged != (fileNumber{st.dev, st.ino}) {
		err = because(ErrChanged, "the object was replaced meanwhile")
	}
	if err != nil {
		c.r.sys.close(h)
		return pin{object: noHandle}, err
	}
	return pin{h, st}, nil
}

func (c *call) identifyPin(p *pin) (identity.ID, error) {
	if p.object == noHandle {
		return identity.ID{}, nil
	}
	return c.r.sys.identify(p.object)
}

// judge notes which object of the place the call has decided on: the host is asked
// about no other.
func (c *call) judge(object *status) { c.judged = fileNumber{object.dev, object.ino} }

// still sees that the canonical path leads to the place without a link, and
// that the place names what is pinned.
func (c *call) still(p *place, was *pin) error {
	w := c.walker()
	w.links = LinksRefuse
	defer w.close()
	w.rest = p.parent
	for {
		name, err := w.toLeaf()
		if err == nil && name != "" {
			err = w.enter(name)
		}
		if err != nil {
			return because(ErrChanged, "a directory of the path was replaced meanwhile")
		}
		if name == "" {
			break
		}
	}
	found, err := c.r.sys.stat(w.here(), "", false)
	if err != nil {
		return err
	}
	place, err := c.r.sys.stat(p.dir, "", false)
	if err != nil {
		return err
	}
	if !found.sameNumbers(&place) {
		return because(ErrChanged, "a directory of the path was replaced meanwhile")
	}
	now, err := c.r.sys.stat(p.dir, p.leaf, false)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	if gone != (was.object == noHandle) || !gone && !now.sameNumbers(&was.st) {
		return because(ErrChanged, "the object was replaced meanwhile")
	}
	return nil
}

// rootPosition is where the root's directory is. It is compared, never opened.
type rootPosition struct {
	path     string
	dev, ino uint64 // of the directory above, where the system tells no path
}

func (r *Root) position() (p rootPosition, err error) {
	var ok bool
	if p.path, ok = pathOf(r.dir); ok {
		return p, nil
	}
	above, err := r.sys.open(r.dir, "..", pathOnly|directoryOnly, 0)
	if err != nil {
		return p, err
	}
	defer r.sys.close(above)
	st, err := r.sys.stat(above, "", false)
	p.dev, p.ino = st.dev, st.ino
	return p, err
}
