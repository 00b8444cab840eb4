package caproot

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

// moveAcross moves to another file system: a copy is published whole under the
// new name, then exactly what was copied is removed from the old.
func moveAcross(from, to *call, source handle, st *status, o *MoveOptions) (identity.Receipt, error) {
	r := from.r
	if needs := Read | Remove | Create; r.policy.Rights&needs != needs {
		return identity.Receipt{}, because(ErrPolicy, "a move to another file system needs Read, Create and Remove")
	}
	if st.isDir() && isBelow(to.r.sys, to.dir, [2]uint64{st.dev, st.ino}) {
		return identity.Receipt{}, errNested
	}
	if err := from.admitUnmounted(); err != nil {
		return identity.Receipt{}, err
	}
	if o.Replace && st.isDir() {
		// A directory is never replaced; what is there decides, in one step.
		o.Replace = false
	}
	took := &manifest{entries: map[pathSum]status{}, names: map[[2]uint64]namesLeft{}}
	var receipt identity.Receipt
	var err error
	switch {
	case st.isDir():
		receipt, err = copyDirAcross(from, to, source, took, o)
	case st.isLink():
		receipt, err = copyLinkAcross(from, to, source, took, o)
	case st.isRegular():
		receipt, err = copyFileAcross(from, to, st, took, o)
	default:
		err = ErrSpecial
	}
	receipt.Op = "move"
	if err != nil {
		return receipt, err
	}
	if err := from.retireAll(st, took); err != nil {
		return receipt, multierror.Append(published(because(ErrChanged, "copied, but the old name could not be removed whole")), err)
	}
	receipt.Durability, err = from.syncDir(from.dir, receipt.Durability, &receipt.Lost)
	return receipt, err
}

// admitUnmounted refuses a mount point, which no removal takes from its name.
func (c *call) admitUnmounted() error {
	dir, err := c.r.sys.stat(c.dir, "", true)
	if err != nil {
		return err
	}
	now, err := c.r.sys.stat(c.dir, c.leaf, true)
	if err == nil && now.mount != dir.mount {
		err = ErrMount
	}
	return err
}

// errSourceReplaced is the answer when the source's name has another object than
// the one that the move decided on and holds.
var errSourceReplaced = because(ErrChanged, "the source was replaced")

func copyFileAcross(from, to *call, judged *status, took *manifest, o *MoveOptions) (receipt identity.Receipt, err error) {
	sys := from.r.sys
	h, err := from.openLeaf(forRead | nonBlocking)
	if errors.Is(err, fs.ErrNotExist) || err != nil && maybeLink(err) {
		err = errSourceReplaced
	}
	if err != nil {
		return receipt, err
	}
	f := &copySource{sys: sys, h: h, limit: from.r.policy.MaxReadBytes, still: func(st *status) error {
		now, err := sys.stat(from.dir, from.leaf, false)
		return sameSource(&now, st, err)
	}}
	defer f.Close()
	if err = f.look(); (err == nil || f.st.ino != 0) && !f.st.sameNumbers(judged) {
		err = errSourceReplaced
	}
	if err == nil {
		err = f.settle()
	}
	if err == nil && f.st.nlink > 1 && from.r.policy.Hardlinks == HardlinksRefuse {
		err = ErrHardlink
	}
	if err != nil {
		return receipt, err
	}
	took.add("", &f.st)
	receipt, err = to.r.copyFile(context.Background(), to.name, f, CopyOptions{
		PutOptions: PutOptions{NoReplace: !o.Replace, Durability: o.Durability}, KeepTimes: true, moving: true,
	})
	return receipt, cause(err)
}

// copyLinkAcross makes the same link under a private name first: a symbolic
// link has no content to wait for, but it may have a file to replace.
func copyLinkAcross(from, to *call, link handle, took *manifest, o *MoveOptions) (receipt identity.Receipt, err error) {
	// First, so that a later change of the link is one of what was looked at.
	st, err := from.r.sys.stat(link, "", false)
	if err != nil {
		return receipt, err
	}
	target, err := from.linkText(link, &st)
	if err != nil {
		return receipt, err
	}
	took.add("", &st)
	stage, err := to.makeLinkStage(target)
	if err != nil {
		return receipt, err
	}
	defer func() { err = stage.end(err) }()
	if err = stage.like(&st); err != nil {
		return receipt, err
	}
	return stage.give(o)
}

// copyDirAcross copies a tree into a private directory beside the target.
func copyDirAcross(from, to *call, source handle, took *manifest, o *MoveOptions) (receipt identity.Receipt, err error) {
	if _, err := to.r.sys.stat(to.dir, to.leaf, false); err == nil {
		return receipt, fs.ErrExist
	}
	stage, err := to.makeDirStage()
	if err != nil {
		return receipt, err
	}
	defer func() { err = stage.end(err) }()
	if err = from.copyTreeAcross(stage, source, took, o); err != nil {
		return receipt, err
	}
	return stage.give(o)
}

func (c *call) copyTreeAcross(stage *moveStage, source handle, took *manifest, o *MoveOptions) error {
	sys, to := c.r.sys, stage.to
	into, err := stage.root()
	if err != nil {
		return err
	}
	defer into.Close()
	list, err := sys.open(source, ".", openForList, 0)
	if err != nil {
		return err
	}
	defer sys.close(list)
	top, err := sys.stat(list, "", false)
	if err != nil {
		return err
	}
	took.add("", &top)
	durability := to.durability(o.Durability)
	flush := durability == DurabilityDir
	if flush {
		// Each directory is flushed once, when everything is in it.
		durability = DurabilityFile
		into.policy.Durability = durability
	}
	t := treeCopy{c: to, ctx: context.Background(), to: into, at: joinCanonical(to.parent, stage.name), slots: make(chan struct{}, 1), took: took, o: &TreeCopyOptions{
		File:     CopyOptions{PutOptions: PutOptions{Durability: durability, NoReplace: true}, KeepTimes: true, moving: true},
		Symlinks: LinksKeep, Hardlinks: LinksKeep,
	}, source: &top, flush: flush}
	if err := t.run(c.r, joinCanonical(c.parent, c.leaf)); err != nil {
		return err
	}
	mode := modeAlone(sys, list, "", top.mode&allModes&to.r.policy.Modes)
	err = into.finishDir(dirMode{name: ".", mode: mode, like: &top}, t.flush, &t.lost)
	stage.lost = append(stage.lost, t.lost...)
	return err
}

// retireAll removes what was copied from under the old name, and nothing else.
func (c *call) retireAll(st *status, took *manifest) error {
	m := removal{c: c, only: took, stay: true}
	m.top = (&trail{name: c.parent, depth: -1}).to(c.leaf)
	if st.isDir() {
		err := m.tree(st)
		if errors.Is(err, fs.ErrNotExist) {
			err = errVanishedCopied
		}
		return m.outcome(err)
	}
	if err := c.permit(StepRemove, 0); err != nil {
		return err
	}
	went, err := took.admit(c.r.sys, c.dir, []string{c.leaf})
	if err == nil {
		err = c.r.sys.remove(c.dir, c.leaf, false)
	}
	went(err == nil)
	return err
}

var errVanishedCopied = because(ErrChanged, "it vanished after it was copied")

// admitter decides on each name before it is removed. The caller tells by went
// that the name is gone, or not.
type admitter interface {
	admit(sys system, dir handle, path []string) (went func(bool), err error)
}

// pathSum stands for a name below the top of a tree, which may be long.
type pathSum [sha256.Size]byte

// manifest is what was copied of a tree.
type manifest struct {
	mu      sync.Mutex
	entries map[pathSum]status
	names   map[[2]uint64]namesLeft // of files with several
}

// namesLeft is how many names of a file are left, and its ctime then: each name
// that goes changes both.
type namesLeft struct {
	count uint64
	ctime stamp
}

// add does nothing for nobody's manifest.
func (m *manifest) add(name string, st *status) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[sha256.Sum256([]byte(name))] = *st
	if st.nlink > 1 && !st.isDir() {
		key := [2]uint64{st.dev, st.ino}
		if _, seen := m.names[key]; !seen { // its content was copied then
			m.names[key] = namesLeft{st.nlink, st.ctime}
		}
	}
}

// admit returns ErrChanged unless the last of path, which is in dir, is what was
// copied.
func (m *manifest) admit(sys system, dir handle, path []string) (went func(bool), err error) {
	went = func(bool) {}
	now, err := sys.stat(dir, path[len(path)-1], false)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errVanishedCopied
		}
		return went, err
	}
	if err := m.compare(&now, strings.Join(path[1:], "/")); err != nil || now.isDir() || now.nlink < 2 {
		return went, err
	}
	h, err := sys.open(dir, path[len(path)-1], pathOnly, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = errVanishedCopied
	}
	if err != nil {
		return went, err
	}
	return func(gone bool) {
		defer sys.close(h)
		if st, err := sys.stat(h, "", false); gone && err == nil {
			m.lessOne(&st)
		}
	}, nil
}

// lessOne notes that a file, which is as st says by now, has lost a name.
func (m *manifest) lessOne(st *status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]uint64{st.dev, st.ino}
	if left, known := m.names[key]; known {
		m.names[key] = namesLeft{left.count - 1, st.ctime}
	}
}

func (m *manifest) compare(now *status, path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, copied := m.entries[sha256.Sum256([]byte(path))]
	left, several := m.names[[2]uint64{now.dev, now.ino}]
	if !several {
		left = namesLeft{was.nlink, was.ctime}
	}
	switch {
	case !copied || !now.sameNumbers(&was):
		return because(ErrChanged, "it is not what was copied")
	case now.isDir():
		return nil
	case now.size != was.size || now.mtime != was.mtime:
		return because(ErrChanged, "it was changed after it was copied")
	case now.nlink != left.count || now.ctime != left.ctime:
		return because(ErrChanged, "its names or attributes were changed after it was copied")
	}
	return nil
}
