package caproot

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

var (
	verbRemoveAll  = verb{name: "removeall", needs: Remove, changes: true, traced: true}
	verbRemoveTree = verb{name: "removetree", needs: Remove, changes: true, traced: true}
)

// TreeLimits are the options of RemoveTree. Zero limits nothing.
type TreeLimits struct {
	// MaxEntries limits how many names are removed, MaxDepth how deep a directory
	// is emptied: what is directly in name has depth 1. What would go beyond is
	// ErrTooLarge before anything more is removed.
	MaxEntries int64
	MaxDepth   int
	// Force makes a missing name a success, also one that vanishes meanwhile. A directory of the tree whose mode
	// keeps it from being emptied gets the owner's permissions first, if the root
	// has the right Attrib.
	Force bool
	// Mounts MountsCross empties what is mounted in the tree too, if the policy
	// crosses mounts. The mount point itself stays and is reported.
	Mounts MountRule
	// Workers is how many goroutines remove. Zero is one. With several a directory
	// of the tree that somebody else removes may be told as ErrChanged.
	Workers int
	// IfMatch removes only the directory or file of this receipt.
	IfMatch *identity.Receipt
}

// TreeReport tells what a removal did.
type TreeReport struct {
	// Removed counts the names that this call removed, name itself included.
	Removed int64
	// Vanished counts the names that were listed and gone before their removal.
	Vanished int64
	// Left has the names that could not be removed, of the first 100, and why.
	// The directories above them are left too and not listed. LeftMore counts the
	// others.
	Left     []LeftEntry
	LeftMore int64
}

// LeftEntry is something that a removal left.
type LeftEntry struct {
	Path string // below the root
	Err  error
}

// RemoveTree removes name and everything below it. A link is removed as a link,
// a tree is emptied through handles on its directories, so no rename leads the
// removal elsewhere; a directory that was replaced meanwhile is ErrChanged and
// stays. What cannot be removed is reported, and the rest still removed.
//
// The error is not nil when anything is left. The end of ctx ends the removal
// between two entries.
//
// One worker holds at most 50 descriptors, several that each. It does not end
// while others fill the tree; after 65,536 rounds in one directory the answer
// is ErrUnstable.
//
// RACE: POSIX has no unlink by handle. A file that takes the name of one that
// was listed is removed in its place.
func (r *Root) RemoveTree(ctx context.Context, name string, o TreeLimits) (TreeReport, error) {
	var c call
	if err := c.begin(r, &verbRemoveTree, name); err != nil {
		return TreeReport{}, err
	}
	defer c.end()
	if err := admitContext(ctx, o.valid()); err != nil {
		return TreeReport{}, c.fail(err)
	}
	m := removal{c: &c, o: o, done: ctx.Done(), cause: func() error { return context.Cause(ctx) }}
	absent, err := m.run()
	if absent && !o.Force {
		err = fs.ErrNotExist
	}
	m.sortReport()
	return m.report, c.fail(m.outcome(err))
}

// RemoveAll removes name and everything below it, as os.Root.RemoveAll does; a
// missing name is success. A link is removed as a link. It never crosses a
// mount point: one in the tree is ErrMount or the system's EBUSY, under every
// policy. What cannot be removed is reported and the rest still removed.
func (r *Root) RemoveAll(name string) error {
	var c call
	if err := c.begin(r, &verbRemoveAll, name); err != nil {
		return err
	}
	defer c.end()
	m := removal{c: &c}
	_, err := m.run()
	return c.fail(m.outcome(err))
}

// removal is a removal of a tree at work; its workers share it.
type removal struct {
	c     *call
	o     TreeLimits
	done  <-chan struct{}
	cause func() error
	stay  bool
	mount uint64 // of the directory that name is in
	spent atomic.Int64
	crew  *removers // nil: alone
	only  admitter  // removes nothing else; nil: removes all
	top   *trail

	proven handle // what IfMatch was compared with, while held
	held   bool

	over     atomic.Bool // budget spent or canceled
	mu       sync.Mutex  // guards the rest
	ended    error       // why, when over
	report   TreeReport
	failures *multierror.Error
}

const (
	maxTreeDepth = 1 << 20 // directories below each other
	maxPasses    = 1 << 16 // listings of one directory, which others may fill meanwhile
	maxReported  = 100     // failures named in one error
)

// run removes, unless there is nothing: absent is about the name itself and its
// parents, never about what is in the tree.
func (m *removal) run() (absent bool, err error) {
	c := m.c
	err = c.toParent()
	var st status
	if err == nil {
		m.stay = c.r.policy.Mounts == MountsStay || m.o.Mounts == MountsStay
		st, err = c.leafStatus()
	}
	if err == nil && m.o.IfMatch != nil {
		defer m.letGo()
		err = m.match(&st)
	}
	if err == nil {
		m.top = (&trail{name: c.parent, depth: -1}).to(c.leaf)
		if st.isDir() {
			err = m.tree(&st)
		} else {
			err = m.single(&st)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// match holds what name holds, which it puts into st, and compares it with the
// expected receipt. While it is held no other object gets its number.
func (m *removal) match(st *status) (err error) {
	c := m.c
	if m.proven, err = c.openLeaf(pathOnly); err != nil {
		return err
	}
	m.held = true
	if err := c.expect(m.o.IfMatch, m.proven, c.leaf); err != nil {
		return err
	}
	*st, err = c.r.sys.stat(m.proven, "", false)
	return err
}

func (m *removal) letGo() {
	if m.held {
		m.held = false
		m.c.r.sys.close(m.proven)
	}
}

// single removes name, which is no directory.
func (m *removal) single(st *status) error {
	c := m.c
	if !m.afford() {
		return nil
	}
	if m.o.IfMatch != nil {
		c.judge(st)
	}
	if err := c.permit(StepRemove, 0); err != nil {
		return err
	}
	if m.o.IfMatch != nil {
		named, err := c.leafStatus()
		if err != nil {
			return err
		}
		if !named.sameNumbers(st) {
			return because(ErrChanged, "replaced while it was compared")
		}
	}
	if err := c.r.sys.remove(c.dir, c.leaf, false); err != nil {
		return err
	}
	m.report.Removed++
	return nil
}

// tree removes name, which is the directory st.
func (m *removal) tree(st *status) error {
	c := m.c
	parent, err := c.r.sys.stat(c.dir, "", true)
	if err != nil {
		return err
	}
	m.mount = parent.mount
	first := emptying{removal: m, base: c.dir}
	defer first.unwind()
	top, err := first.open(c.dir, c.leaf, m.top, m.position())
	if err != nil && maybeLink(err) {
		err = &detail{ErrChanged, "directory replaced before it was emptied", err}
	}
	if err != nil {
		return err
	}
	if !top.st.sameNumbers(st) {
		c.r.sys.close(top.dir)
		return because(ErrChanged, "directory replaced before it was emptied")
	}
	m.letGo()
	first.levels = append(first.levels, top)
	if m.o.Workers > 1 {
		defer m.employ(min(m.o.Workers, maxWorkers) - 1)()
	}
	first.empty()
	return nil
}

// position is where the directory is that the name of the call is in.
func (m *removal) position() denyAt {
	if m.c.r.deny == nil {
		return denyAt{}
	}
	return m.c.g.at
}

// outcome is the error of the whole: err, or why the removal ended, or what
// was left.
func (m *removal) outcome(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		err = m.ended
	}
	switch {
	case m.failures == nil:
		return err
	case err != nil:
		return multierror.Append(err, m.failures)
	}
	return m.failures
}

func (m *removal) sortReport() {
	slices.SortFunc(m.report.Left, func(a, b LeftEntry) int { return strings.Compare(a.Path, b.Path) })
}

// finish ends the removal everywhere, for the first reason given.
func (m *removal) finish(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil {
		m.ended = why
	}
	m.over.Store(true)
}

// goOn reports whether the removal goes on.
func (m *removal) goOn() bool {
	select {
	case <-m.done:
		m.finish(m.cause())
	default:
		if err := m.c.r.tenure.holds(); err != nil {
			m.finish(err)
		}
	}
	return !m.over.Load()
}

// afford spends one of the entries that may be removed. What it granted is
// removed, even if another worker is refused right after.
func (m *removal) afford() bool {
	if !m.goOn() {
		return false
	}
	if m.o.MaxEntries > 0 && m.spent.Add(1) > m.o.MaxEntries {
		m.finish(because(ErrTooLarge, "more entries than may be removed"))
		return false
	}
	return true
}

// keep reports what is left.
func (m *removal) keep(path string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.report.Left) >= maxReported {
		m.report.LeftMore++
		return
	}
	m.report.Left = append(m.report.Left, LeftEntry{path, err})
	m.failures = multierror.Append(m.failures, &fs.PathError{Op: "remove", Path: path, Err: err})
}

func (m *removal) count(removed, vanished int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report.Removed += removed
	m.report.Vanished += vanished
}

// trail is the way to a directory of the tree, as names.
type trail struct {
	up    *trail
	name  string
	depth int // 0 for the top of the tree
}

func (t *trail) to(name string) *trail { return &trail{t, name, t.depth + 1} }

func (t *trail) path() string { return strings.Join(t.below(nil), "/") }

// below are the names from top, its own included, to the directory.
func (t *trail) below(top *trail) (names []string) {
	for ; t != nil; t = t.up {
		if t.name != "" {
			names = append(names, t.name)
		}
		if top != nil && t.depth == top.depth {
			break
		}
	}
	slices.Reverse(names)
	return names
}
