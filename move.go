package caproot

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/caproot/caproot/identity"
)

var (
	verbMove   = verb{name: "move", needs: Move, changes: true, traced: true}
	verbRename = verb{name: "rename", needs: Move, changes: true, relinks: true}
)

// MoveOptions are the options of Move.
type MoveOptions struct {
	// Replace lets Move give over an existing name, which needs the right Replace.
	// A directory is never replaced.
	Replace bool
	// IfMatch moves only the object of this receipt.
	IfMatch *identity.Receipt
	// Durability is what to wait for; the policy's is the least.
	Durability Durability
	// CrossDevice moves to another file system where a rename cannot: by a copy
	// that gets its name when it is whole, and then the removal of exactly what was
	// copied. It needs the rights Read, Create and Remove, and for a directory List
	// and Mkdir, for links in it Symlink and Link. Owner, mode, times, hard links
	// and symbolic links are kept as far as the system and Policy.Modes let them, and
	// access lists as by CopyOptions.KeepMode. Other extended attributes are not,
	// and a file with holes takes the room of its size.
	// If something under the old name changed meanwhile it stays there, and with
	// ErrChanged both names exist. It cannot be canceled. A file that was changed a
	// moment ago is waited for, until a further change would show in its times: some
	// ms, and 2 s where these have no fractions of a second. Not noticed is a write
	// through a shared mapping into a page that was written before, nor one within
	// the time by which the clock of a network file system is behind.
	//
	// Policy.MaxReadBytes limits each file. DurabilityDir flushes each directory that
	// is made before the new name exists.
	//
	// When it fails before the new name exists, the half copy is taken away and paid
	// back, whatever ended it: Grant.Before is not asked about that, and a revocation
	// does not stop it. What another process put in its place stays.
	//
	// A process that is killed in it leaves the object whole under one of the names:
	// under the new one as soon as that exists, and then all or a part of it under
	// the old one too. Before that, a directory or link may lie half copied beside
	// the new name, under the name of a stage, which Sweep leaves alone.
	CrossDevice bool
}

// Rename renames as os.Root.Rename does: an existing file is replaced, an
// existing directory is an error that matches fs.ErrExist. What Move says of
// symbolic links holds here too.
func (r *Root) Rename(oldName, newName string) error {
	_, err := r.move(&verbRename, oldName, newName, MoveOptions{Replace: true, Durability: DurabilityVolatile})
	return err
}

// Move gives the object at from the name to, within one file system unless
// CrossDevice. Without
// Replace an existing name is an error that matches fs.ErrExist, decided by the
// kernel in the same step; where it cannot, a file is linked and unlinked, and
// anything else is ErrUnsupported. Two names of one file become one.
//
// Under TargetsInside a symbolic link whose text leads out from its new place,
// and did not from the old, is ErrEscape; links in a directory that is moved are
// not looked at.
//
// It returns ErrName when to is inside the directory from (on Windows a place deeper
// than directly in it is the system's own error). It returns ErrChanged
// when what was moved is not the object it looked at, as
// the name was given to another one meanwhile, or is not where it was moved to
// any more. With another error after the move, as from a directory flush, the
// receipt's Published is not Unpublished. It returns ErrUnsupported where no call
// refuses to replace. A loss of power before Move returns can leave both names on
// some file systems (btrfs), never none.
func (r *Root) Move(from, to string, o MoveOptions) (identity.Receipt, error) {
	return r.move(&verbMove, from, to, o)
}

func (r *Root) move(v *verb, oldName, newName string, o MoveOptions) (identity.Receipt, error) {
	var from, to call
	if err := beginBoth(r, v, &from, &to, oldName, newName); err != nil {
		return identity.Receipt{}, err
	}
	defer from.end()
	defer to.end()
	receipt, err := move(&from, &to, &o)
	return receipt, from.failLink(newName, err)
}

func move(from, to *call, o *MoveOptions) (receipt identity.Receipt, err error) {
	if err := o.valid(); err != nil {
		return receipt, err
	}
	if err := toParents(from, to); err != nil {
		return receipt, err
	}
	sys := from.r.sys
	source, st, err := from.hold(o, to.shape.MustDir)
	if err != nil {
		return receipt, err
	}
	defer sys.close(source)
	if to.shape.MustDir {
		err = to.refuseLink()
	}
	if err == nil {
		err = from.admitRelink(source, &st, to)
	}
	if err != nil {
		return receipt, err
	}
	if err := from.permitAt(StepRename, 0, &from.place, &to.place); err != nil {
		return receipt, err
	}
	t := telling{op: "move", object: source, asked: from.durability(o.Durability)}
	t.published, err = rename(from, to, &st, o)
	if err == syscall.EXDEV && o.CrossDevice {
		return moveAcross(from, to, source, &st, o)
	}
	late := err
	if err != nil && !moved(from, to, &st) {
		return receipt, intoItself(to, &st, err)
	}
	// RACE: the name may have been given to another object after it was opened.
	now, err := sys.stat(to.dir, to.leaf, false)
	if err == nil && !now.sameNumbers(&st) || errors.Is(err, fs.ErrNotExist) {
		return receipt, because(ErrChanged, "the object moved is not the one looked at")
	}
	late = errors.Join(late, err)
	if from.verb == &verbRename {
		return receipt, late
	}
	t.achieved, err = syncMove(from, to, &t)
	receipt, terr := to.tell(&t)
	if late = errors.Join(late, terr); err == nil && late != nil {
		err = published(late)
	}
	return receipt, err
}

// refuseLink refuses a new name that is a link.
func (c *call) refuseLink() error {
	st, err := c.leafStatus()
	if err == nil && st.isLink() {
		return ErrSymlink
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// moved tells whether a rename that failed was made all the same: a server can
// lose its reply.
func moved(from, to *call, st *status) bool {
	_, err := from.r.sys.stat(from.dir, from.leaf, false)
	now, nerr := from.r.sys.stat(to.dir, to.leaf, false)
	return errors.Is(err, fs.ErrNotExist) && nerr == nil && now.sameNumbers(st)
}

// admitMove decides on the object at the old name.
func (c *call) admitMove(st *status, o *MoveOptions, source handle, toDir bool) error {
	switch {
	case c.shape.MustDir && st.isLink():
		return ErrSymlink
	case (c.shape.MustDir || toDir) && !st.isDir():
		return errNotDir
	case st.isRegular() && st.nlink > 1 && c.r.policy.Hardlinks == HardlinksRefuse:
		return ErrHardlink
	case o.IfMatch != nil:
		return c.expect(o.IfMatch, source, c.leaf)
	}
	return nil
}

// rename moves the leaf and tells how the new name was come by.
func rename(from, to *call, st *status, o *MoveOptions) (identity.Publication, error) {
	sys := from.r.sys
	old, err := sys.stat(to.dir, to.leaf, false)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		if o.Replace && from.r.policy.Rights&Replace != 0 {
			return identity.Created, sys.rename(from.dir, from.leaf, to.dir, to.leaf, replacing)
		}
		return identity.Created, moveNew(sys, from.dir, from.leaf, to.dir, to.leaf)
	}
	if old.sameNumbers(st) {
		return oneObject(from, to, st)
	}
	switch {
	case !o.Replace || old.isDir():
		return 0, syscall.EEXIST
	case from.r.policy.Rights&Replace == 0:
		return 0, because(ErrPolicy, "name exists, needs Replace")
	case old.isSpecial() && from.r.policy.Special == SpecialRefuse:
		return 0, ErrSpecial
	}
	return identity.Renamed, sys.rename(from.dir, from.leaf, to.dir, to.leaf, replacing)
}

// oneObject moves between two names of one object. The kernel's rename does
// nothing for two hard links and reports success (rename(2)); one entry that
// folds to both names changes its spelling.
func oneObject(from, to *call, st *status) (identity.Publication, error) {
	sys := from.r.sys
	if st.isDir() || st.nlink < 2 {
		return identity.Renamed, sys.rename(from.dir, from.leaf, to.dir, to.leaf, replacing)
	}
	a, err := sys.stat(from.dir, "", false)
	b, berr := sys.stat(to.dir, "", false)
	if err := errors.Join(err, berr); err != nil {
		return 0, err
	}
	if a.sameNumbers(&b) {
		if from.leaf == to.leaf {
			return identity.Renamed, nil
		}
		two, err := twoEntries(sys, from.dir, from.leaf, to.leaf)
		if err != nil {
			return 0, err
		}
		if !two {
			return identity.Renamed, sys.rename(from.dir, from.leaf, to.dir, to.leaf, replacing)
		}
	}
	return identity.Renamed, sys.remove(from.dir, from.leaf, false)
}

// twoEntries tells whether both names are entries of dir. Where case or form is
// folded, a lookup finds one entry by either, and removing the one would take
// the other away.
func twoEntries(sys system, dir handle, one, other string) (both bool, err error) {
	h, err := sys.open(dir, ".", forRead|directoryOnly, 0)
	if err != nil {
		return false, err
	}
	defer sys.close(h)
	found := 0
	for scratch := make([]byte, listBytes); ; {
		entries, err := sys.list(h, scratch)
		if err != nil || len(entries) == 0 {
			return found == 2, err
		}
		for _, e := range entries {
			if e.name == one || e.name == other {
				found++
			}
		}
	}
}

func syncMove(from, to *call, t *telling) (Durability, error) {
	achieved, err := to.syncDir(to.dir, t.asked, &t.lost)
	if err != nil {
		return achieved, err
	}
	return from.syncDir(from.dir, achieved, &t.lost)
}
