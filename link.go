package caproot

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/caproot/caproot/pathsafe"
)

var (
	verbLink    = verb{name: "link", needs: Link, changes: true}
	verbSymlink = verb{name: "symlink", needs: Symlink, changes: true, traced: true}
)

// Link makes newName a hard link to oldName. A link to a symbolic link is
// ErrSymlink, unless the policy has TargetsAny.
func (r *Root) Link(oldName, newName string) error {
	var from, to call
	if err := beginBoth(r, &verbLink, &from, &to, oldName, newName); err != nil {
		return err
	}
	defer from.end()
	defer to.end()
	return from.failLink(newName, link(&from, &to))
}

func link(from, to *call) error {
	if err := toParents(from, to); err != nil {
		return err
	}
	st, err := from.leafStatus()
	if err != nil {
		return err
	}
	if err := from.admitLink(&st); err != nil {
		return err
	}
	if to.shape.MustDir {
		return errNotDir
	}
	from.judge(&st)
	if err := from.permitAt(StepLink, 1, &from.place, &to.place); err != nil {
		return err
	}
	sys := from.r.sys
	err = sys.link(from.dir, from.leaf, to.dir, to.leaf)
	if from.settleSpent(err == nil); err != nil {
		return err
	}
	// RACE: the old name may have been given to another object after the look.
	now, err := sys.stat(to.dir, to.leaf, false)
	if err != nil {
		return err
	}
	if !now.sameNumbers(&st) {
		return because(ErrChanged, "the linked object is not the one looked at")
	}
	return nil
}

func (c *call) admitLink(st *status) error {
	p := &c.r.policy
	switch {
	case st.isLink() && p.LinkTargets != TargetsAny:
		return ErrSymlink
	case st.isSpecial() && p.Special == SpecialRefuse:
		return ErrSpecial
	case p.Hardlinks == HardlinksRefuse:
		return ErrHardlink
	}
	return nil
}

// Symlink makes newName a symbolic link with the text target. Under
// TargetsInside it returns ErrEscape for a target that is absolute, that as text
// leaves the root from where the link stands, or that has ".." after a name. A
// target that ends in a name of a stage's form is ErrName: Sweep would remove the
// file that a write through the link makes.
func (r *Root) Symlink(target, newName string) error {
	var c call
	if err := c.begin(r, &verbSymlink, newName); err != nil {
		return linkError(&verbSymlink, target, newName, cause(err))
	}
	defer c.end()
	err := c.symlink(target)
	c.note(err)
	return linkError(&verbSymlink, target, newName, err)
}

func (c *call) symlink(target string) error {
	absolute, err := pathsafe.Target(target, c.r.policy.Names)
	if err != nil {
		return nameError(err)
	}
	if !c.r.carries {
		if err := unreserved(path.Base(filepath.ToSlash(target))); err != nil {
			return err
		}
	}
	if err := c.toParent(); err != nil {
		return err
	}
	if c.shape.MustDir {
		return errNotDir
	}
	if c.r.policy.LinkTargets == TargetsInside && (absolute || leaves(c.parent, target, c.r.policy.Names)) {
		return because(ErrEscape, "target leaves the root")
	}
	if err = c.permit(StepSymlink, 1); err == nil {
		err = c.r.sys.symlink(target, c.dir, c.leaf)
	}
	c.settleSpent(err == nil)
	return err
}

// leaves tells whether target, as text, climbs over the root from the directory
// dir, or climbs after a name: what has that name may be a link, and ".." then
// goes up from where that leads.
func leaves(dir, target string, p pathsafe.Profile) bool {
	depth := 0
	for name, rest := pathsafe.Next(dir, p); name != ""; name, rest = pathsafe.Next(rest, p) {
		depth++
	}
	named := false
	for name, rest := pathsafe.Next(target, p); name != ""; name, rest = pathsafe.Next(rest, p) {
		if name != ".." {
			named = true
			continue
		}
		if depth--; named || depth < 0 {
			return true
		}
	}
	return false
}

// admitRelink decides under TargetsInside on a link that gets the place to: its
// text must not lead out from there, unless it did so where it is. The text of
// a directory's links is not looked at.
//
// RACE: the directory of the new place can be moved before the link is.
func (c *call) admitRelink(link handle, st *status, to *call) error {
	p := &c.r.policy
	if !st.isLink() || p.LinkTargets != TargetsInside {
		return nil
	}
	target, err := c.linkText(link, st)
	if err != nil {
		return err
	}
	absolute, err := pathsafe.Target(target, p.Names)
	if err != nil || absolute || leaves(c.parent, target, p.Names) || !leaves(to.parent, target, p.Names) {
		return nil
	}
	return because(ErrEscape, "the link's target leaves the root from its new place")
}

// linkText is the text of an open link that the place names. It is read by the
// handle where the system can, and else by the name.
//
// RACE: by the name, another link that has it just then is taken for this one.
func (c *call) linkText(link handle, st *status) (string, error) {
	if link != noHandle {
		if text, err := c.r.sys.readlink(link, ""); err == nil {
			return text, nil
		}
	}
	text, err := c.r.sys.readlink(c.dir, c.leaf)
	if err == nil {
		err = c.names(st)
	}
	return text, err
}

// beginBoth begins a verb with two names.
func beginBoth(r *Root, v *verb, from, to *call, oldName, newName string) error {
	if r.opened() && r.tenure.parent != nil {
		from.g, to.g = &grantedCall{to: newName}, &grantedCall{quiet: true}
	}
	if err := from.begin(r, v, oldName); err != nil {
		return linkError(v, oldName, newName, cause(err))
	}
	if err := to.begin(r, v, newName); err != nil {
		from.note(cause(err))
		from.end()
		return linkError(v, oldName, newName, cause(err))
	}
	return nil
}

func toParents(from, to *call) error {
	if err := from.toParent(); err != nil {
		return err
	}
	return to.toParent()
}

// failLink is fail for verbs with two names.
func (c *call) failLink(to string, err error) error {
	c.note(err)
	return linkError(c.verb, c.name, to, err)
}

// linkError is fail for verbs with two names.
func linkError(v *verb, from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: v.name, Old: from, New: to, Err: badName(err)}
}

// cause takes the wrapping of fail or linkError off again.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}
