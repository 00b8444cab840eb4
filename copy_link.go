package caproot

import (
	"errors"
	"io/fs"
	"syscall"
)

// linkOver is Link that gives old, a file, the name of another file too.
func (r *Root) linkOver(old, name string) error {
	var from, to call
	if err := beginBoth(r, &verbLink, &from, &to, old, name); err != nil {
		return err
	}
	defer from.end()
	defer to.end()
	err := link(&from, &to)
	if errors.Is(err, fs.ErrExist) {
		from.leavePlace()
		to.leavePlace()
		err = linkOver(&from, &to)
	}
	return from.failLink(name, err)
}

// linkOver replaces in one step: the file has a stage's name first, so that at no
// time nothing has the name.
func linkOver(from, to *call) error {
	if err := toParents(from, to); err != nil {
		return err
	}
	sys := from.r.sys
	// The lock keeps sweeps away from the second name as long as it is a stage's.
	h, err := from.openLeaf(forRead | nonBlocking)
	if err != nil {
		return err
	}
	defer sys.close(h)
	if err := sys.lock(h); err != nil && !noLock(err) && !errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	st, err := sys.stat(h, "", false)
	if err == nil {
		err = from.admitLink(&st)
	}
	if err == nil {
		err = to.admitLinkOver(&st)
	}
	if err == nil {
		from.judge(&st)
		err = from.permitAt(StepLink, 1, &from.place, &to.place)
	}
	if err != nil {
		return err
	}
	return to.giveLink(from, &st)
}

// admitLinkOver decides on what has the name now.
func (c *call) admitLinkOver(mine *status) error {
	st, err := c.r.sys.stat(c.dir, c.leaf, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	err = st.replaceable()
	if err == nil && !st.sameNumbers(mine) && c.r.policy.Rights&Replace == 0 {
		err = because(ErrPolicy, "name exists, needs Replace")
	}
	return err
}

func (c *call) giveLink(from *call, mine *status) error {
	sys, stage := c.r.sys, newStageName()
	if err := sys.link(from.dir, from.leaf, c.dir, stage); err != nil {
		return err
	}
	from.keep() // anybody may have given the link a third name
	// RACE: the old name may have been given to another object after the look.
	now, err := sys.stat(c.dir, stage, false)
	if err == nil && !now.sameNumbers(mine) {
		err = because(ErrChanged, "the linked object is not the one looked at")
	}
	if err == nil {
		err = sys.rename(c.dir, stage, c.dir, c.leaf, replacing)
	}
	// Two names of one file are not renamed over each other (rename(2)).
	if rerr := unfenced(sys).remove(c.dir, stage, false); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) && err == nil {
		err = rerr
	}
	return err
}
