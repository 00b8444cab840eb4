package caproot

import "github.com/caproot/caproot/identity"

var verbExchange = verb{name: "exchange", needs: Move | Replace, changes: true, traced: true}

// Exchange gives the objects at a and b each other's names in one step: at no
// time is either name missing. So a directory is replaced by another, which is
// then removed under the name of its successor. The receipt is that of what was
// at a and is at b now, and IfMatch is about it; Replace and CrossDevice mean
// nothing.
//
// Of symbolic links holds what Move says. It returns ErrUnsupported where there is
// no such call, ErrName for a
// directory and what is inside it, the system's EXDEV across file systems, and ErrChanged when a name was given to another object
// meanwhile: then the two are exchanged all the same, and the receipt's
// Published says so.
func (r *Root) Exchange(a, b string, o MoveOptions) (identity.Receipt, error) {
	var from, to call
	if err := beginBoth(r, &verbExchange, &from, &to, a, b); err != nil {
		return identity.Receipt{}, err
	}
	defer from.end()
	defer to.end()
	receipt, err := exchange(&from, &to, &o)
	return receipt, from.failLink(b, err)
}

func exchange(from, to *call, o *MoveOptions) (receipt identity.Receipt, err error) {
	if err := o.valid(); err != nil {
		return receipt, err
	}
	if err := toParents(from, to); err != nil {
		return receipt, err
	}
	sys := from.r.sys
	mine, first, err := from.hold(o, false)
	if err != nil {
		return receipt, err
	}
	defer sys.close(mine)
	other, second, err := to.hold(&MoveOptions{}, false)
	if err != nil {
		return receipt, err
	}
	defer sys.close(other)
	if err := unreserved(from.leaf); err != nil {
		return receipt, err
	}
	if err := from.admitRelink(mine, &first, to); err != nil {
		return receipt, err
	}
	if err := to.admitRelink(other, &second, from); err != nil {
		return receipt, err
	}
	if err := from.permitAt(StepRename, 0, &from.place, &to.place); err != nil {
		return receipt, err
	}
	if err := sys.rename(from.dir, from.leaf, to.dir, to.leaf, exchanging); err != nil {
		if noFlag(err) {
			err = &detail{ErrUnsupported, err.Error(), err}
		}
		return receipt, intoItself(from, &second, intoItself(to, &first, err))
	}
	t := telling{op: "exchange", object: mine, published: identity.Swapped, asked: from.durability(o.Durability)}
	if err = to.names(&first); err == nil {
		err = from.names(&second)
	}
	achieved, serr := syncMove(from, to, &t)
	if t.achieved = achieved; err == nil {
		err = serr
	}
	receipt, terr := to.tell(&t)
	if err == nil && terr != nil {
		err = published(terr)
	}
	return receipt, err
}

// hold opens what the leaf names and decides on it, for a move to a name that is a
// directory's if toDir.
func (c *call) hold(o *MoveOptions, toDir bool) (h handle, st status, err error) {
	if h, err = c.openLeaf(pathOnly); err != nil {
		return h, st, err
	}
	if st, err = c.r.sys.stat(h, "", false); err == nil {
		c.judge(&st)
		err = c.admitHeld(h)
	}
	if err == nil {
		err = c.admitMove(&st, o, h, toDir)
	}
	if err != nil {
		c.r.sys.close(h)
	}
	return h, st, err
}

// names returns ErrChanged unless the leaf names an object that is held open.
func (c *call) names(object *status) error {
	now, err := c.r.sys.stat(c.dir, c.leaf, false)
	if err != nil || !now.sameNumbers(object) {
		return because(ErrChanged, "the name is not that of the object that was looked at")
	}
	return nil
}
