package caproot

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

// moveStage is the directory or link that a move to another file system makes
// under a stage's name beside its target. It is held open, so that its numbers are
// no other object's.
type moveStage struct {
	to    *call
	name  string
	h     handle
	st    status
	spent *ledger // for what is in it; nil without a budget
	given bool    // it has the target's name
	lost  []string
}

var errStageReplaced = because(ErrChanged, "the stage was replaced")

// at is the place of the stage, for a call of its own.
func (c *call) at(stage string) call {
	in := *c
	in.leaf, in.owned = stage, false
	if c.g != nil {
		in.g = &grantedCall{quiet: true, at: c.g.at}
	}
	return in
}

// openStage holds what was made. Whoever gave its name to another object before
// that is found out by what is no new directory, or not the link.
func (c *call) openStage(name, target string, isDir bool) (*moveStage, error) {
	sys := c.r.sys
	how := pathOnly
	if isDir {
		how |= directoryOnly
	}
	h, err := sys.open(c.dir, name, how, 0)
	if errors.Is(err, fs.ErrNotExist) || err != nil && maybeLink(err) {
		err = errStageReplaced
	}
	if err != nil {
		return nil, err
	}
	s := &moveStage{to: c, name: name, h: h}
	in := c.at(name)
	if s.st, err = sys.stat(h, "", true); err == nil {
		_, err = in.positionOf(h)
	}
	if err == nil {
		err = s.isNew(target)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errStageGone
	}
	if err != nil {
		sys.close(h)
		return nil, err
	}
	return s, nil
}

func (s *moveStage) isNew(target string) error {
	sys := s.to.r.sys
	if !s.st.isDir() {
		in := s.to.at(s.name)
		text, err := in.linkText(s.h, &s.st)
		if err != nil || text != target || s.st.nlink != 1 {
			return errStageReplaced
		}
		return nil
	}
	beside, err := sys.stat(s.to.dir, "", true)
	if err == nil && !s.st.onMount(beside.mount) {
		err = errStageReplaced
	}
	if err != nil {
		return err
	}
	list, err := sys.open(s.h, ".", openForList, 0)
	if err != nil {
		return err
	}
	defer sys.close(list)
	entries, err := sys.list(list, make([]byte, listBytes))
	if err == nil && len(entries) > 0 {
		err = errStageReplaced
	}
	if err != nil {
		return err
	}
	return s.isPrivate()
}

// isPrivate refuses a directory in which others may do what they like: it is not the
// one that was made. Where owner or mode are not what a new directory's are, it is
// held against one that is made in it: the file system may have its own for all.
func (s *moveStage) isPrivate() error {
	sys := s.to.r.sys
	if int64(s.st.uid) == int64(os.Geteuid()) && s.st.mode.Perm()&^0o700 == 0 {
		return nil
	}
	name := newStageName()
	if err := sys.mkdir(s.h, name, 0o700); err != nil {
		return &detail{ErrChanged, errStageReplaced.Error(), err}
	}
	defer unfenced(sys).remove(s.h, name, true)
	probe, err := sys.stat(s.h, name, false)
	if err == nil && (probe.uid != s.st.uid || probe.mode.Perm() != s.st.mode.Perm()) || errors.Is(err, fs.ErrNotExist) {
		err = errStageReplaced
	}
	return err
}

// makeDirStage makes a private directory beside the target.
func (c *call) makeDirStage() (*moveStage, error) {
	if needs := List | Mkdir; c.r.policy.Rights&needs != needs {
		return nil, because(ErrPolicy, "a move of a directory to another file system needs List and Mkdir")
	}
	name := newStageName()
	in := c.at(name)
	defer in.refund()
	if err := in.allow(StepMkdir, 1, &in.place); err != nil {
		return nil, err
	}
	if err := c.r.sys.mkdir(c.dir, name, 0o700); err != nil {
		return nil, in.dropLost(name, "", err)
	}
	in.keep()
	s, err := c.openStage(name, "", true)
	if err != nil {
		return nil, c.dropUnheld(name, "", err)
	}
	return s, nil
}

// makeLinkStage makes a link, whose charge stays reserved until it is published.
func (c *call) makeLinkStage(target string) (*moveStage, error) {
	if err := c.permit(StepSymlink, 1); err != nil {
		return nil, err
	}
	name := newStageName()
	if err := c.r.sys.symlink(target, c.dir, name); err != nil {
		return nil, c.dropLost(name, target, err)
	}
	s, err := c.openStage(name, target, false)
	if err != nil {
		c.keep()
		return nil, c.dropUnheld(name, target, err)
	}
	return s, nil
}

// dropUnheld takes away what could not be held for err, as far as that harms nobody:
// an empty directory, or the link with the text target. It stays charged.
func (c *call) dropUnheld(name, target string, err error) error {
	sys, in := unfenced(c.r.sys), c.at(name)
	if in.admitLeaf() != nil {
		return err
	}
	if target != "" {
		if text, rerr := sys.readlink(c.dir, name); rerr != nil || text != target {
			return err
		}
	}
	sys.remove(c.dir, name, target == "")
	return err
}

// dropLost is for an err of the call that makes a stage, which a server may have
// carried out all the same.
func (c *call) dropLost(name, target string, err error) error {
	if _, serr := c.r.sys.stat(c.dir, name, false); errors.Is(serr, fs.ErrNotExist) {
		return err
	}
	c.keep()
	return c.dropUnheld(name, target, err)
}

// root is the directory as a Root, in which names of stages may be made too.
func (s *moveStage) root() (*Root, error) {
	r := s.to.r
	h, err := r.sys.dup(s.h)
	if err != nil {
		return nil, err
	}
	in := s.to.at(s.name)
	t := r.tenure
	if t.ledger != nil {
		// A grant without limits of its own, to know what the move spends.
		s.spent = newLedger(t.ledger, Budget{NoLimit, NoLimit})
		t = &tenure{parent: t, ledger: s.spent, at: under(r.below, in.reached()), asks: t.asks, told: t.told}
	}
	into, err := in.subRoot(h, in.canonical(), r.policy, t)
	if err != nil {
		return nil, err
	}
	if t != r.tenure {
		into.below = ""
	}
	into.carries = true
	into.policy.Links, into.policy.MutationLinks, into.policy.LinkTargets = LinksRefuse, LinksRefuse, TargetsAny
	return into, nil
}

// alikeLink gives a link, which is as st says, owner and times of the one that is
// moved.
func alikeLink(sys system, h handle, st, like *status) (lost []string) {
	if (st.uid != like.uid || st.gid != like.gid) && sys.chown(h, int(like.uid), int(like.gid)) != nil {
		lost = append(lost, "owner")
	}
	if sys.chtimes(h, like.atime.time(), like.mtime.time()) != nil {
		lost = append(lost, "times")
	}
	return lost
}

// likeLink is alikeLink for a link in a stage. What has its name by now, and other
// names too, is not its link.
func (r *Root) likeLink(name string, like *status) {
	var c call
	if c.beginQuiet(r, &verbSymlink, name) != nil {
		return
	}
	defer c.end()
	if c.toParent() != nil {
		return
	}
	h, err := c.openLeaf(pathOnly)
	if err != nil {
		return
	}
	defer r.sys.close(h)
	if st, err := r.sys.stat(h, "", false); err == nil && st.isLink() && st.nlink == 1 {
		alikeLink(r.sys, h, &st, like)
	}
}

// named returns an error that matches ErrChanged unless the stage has its name.
func (s *moveStage) named() error {
	now, err := s.to.r.sys.stat(s.to.dir, s.name, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errStageGone
	case err == nil && !now.sameNumbers(&s.st):
		return errStageReplaced
	}
	return err
}

// alone is named, and of a link that nobody has given it a further name.
func (s *moveStage) alone() error {
	err := s.named()
	if err != nil || s.st.isDir() {
		return err
	}
	now, err := s.to.r.sys.stat(s.h, "", false)
	if err == nil && now.nlink != 1 {
		err = errStageReplaced
	}
	return err
}

// like gives a link the owner and times of the one that is moved.
func (s *moveStage) like(st *status) error {
	if err := s.alone(); err != nil {
		return err
	}
	s.lost = alikeLink(s.to.r.sys, s.h, &s.st, st)
	return nil
}

var errTakenAway = because(ErrChanged, "the new name was taken away")

// give gives the stage the target's name.
func (s *moveStage) give(o *MoveOptions) (receipt identity.Receipt, err error) {
	to := s.to
	if err = to.permit(StepPublish, 0); err == nil {
		err = s.alone()
	}
	if err != nil {
		return receipt, err
	}
	t := telling{op: "move", object: s.h, asked: to.durability(o.Durability), lost: s.lost}
	staged := to.at(s.name)
	t.published, err = rename(&staged, to, &s.st, o)
	late := err
	if err != nil && !moved(&staged, to, &s.st) {
		if errors.Is(err, fs.ErrNotExist) && s.named() == errStageGone {
			err = errStageGone
		}
		return receipt, err
	}
	// RACE: the name may have been given to another object after the look.
	now, err := to.r.sys.stat(to.dir, to.leaf, false)
	if err == nil && (!now.sameNumbers(&s.st) || s.named() == nil) { // rename(2) does nothing for two names of one object
		return receipt, errStageReplaced
	}
	s.given = true
	to.keep()
	if errors.Is(err, fs.ErrNotExist) {
		err = errTakenAway
	}
	late = errors.Join(late, err)
	t.achieved, err = to.syncDir(to.dir, t.asked, &t.lost)
	if slices.Contains(t.lost, "dir-sync") {
		t.achieved = max(t.achieved, DurabilityFile)
	}
	receipt, terr := to.tell(&t)
	if late = errors.Join(late, terr); err == nil && late != nil {
		err = published(late)
	}
	return receipt, err
}

// end lets the stage go after err. One that was not given its name is taken away
// regardless of what the policy's callbacks, a revocation, a fence or the end of a
// context say: nobody else knows its name.
func (s *moveStage) end(err error) error {
	defer s.to.r.sys.close(s.h)
	if s.given {
		return err
	}
	if rerr := s.discard(); rerr != nil {
		return multierror.Append(err, rerr)
	}
	return err
}

func (s *moveStage) discard() error {
	sys := unfenced(s.to.r.sys)
	err := s.named()
	switch {
	case err != nil:
	case s.st.isDir():
		err = s.removeTree()
	default:
		// RACE: POSIX has no unlink by handle.
		err = sys.remove(s.to.dir, s.name, false)
	}
	gone := isNameless(sys, s.h)
	if !s.st.isDir() {
		s.to.settleSpent(!gone)
	}
	switch {
	case gone:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errStageGone
	}
	return err
}

// removeTree empties and removes the directory through handles, by a root of the
// library's own: nobody is asked or told. What is denied is denied still.
func (s *moveStage) removeTree() error {
	to := s.to
	own := &Root{
		sys: unfenced(to.r.sys), deny: to.r.deny, tenure: new(tenure),
		policy: Policy{Rights: Remove | Attrib, Modes: allModes},
	}
	c := to.at(s.name)
	c.r, c.verb = own, &verbRemoveTree
	m := removal{c: &c, stay: true, o: TreeLimits{Force: true}}
	m.top = (&trail{name: c.parent, depth: -1}).to(c.leaf)
	var back refunds
	if to.r.tenure.ledger != nil {
		m.only = &back
	}
	err := m.outcome(m.tree(&s.st))
	to.r.tenure.ledger.refund(back.within(s.charged()))
	return err
}

// charged is what the move has spent for the directory and what is in it.
func (s *moveStage) charged() Budget {
	b := Budget{Files: 1}
	if s.spent != nil {
		s.spent.mu.Lock()
		defer s.spent.mu.Unlock()
		b.Bytes, b.Files = s.spent.spent.Bytes, b.Files+s.spent.spent.Files
	}
	return b
}
