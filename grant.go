package caproot

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
)

// Grant is what a Root is to hand out of itself. Its zero value allows nothing.
// What it holds is read when Root.Grant is called; later changes to it or to
// what it points to have no effect.
type Grant struct {
	// Policy is met with the policy of the Root that grants.
	Policy Policy
	// Deny names what is withheld below the granted directory: files, and
	// directories with everything in them, for reading verbs too. A name is
	// resolved when the grant is made, links followed; the object found there is
	// denied whichever way leads to it: link, bind mount, hard link, case variant,
	// short name. Of a link that leads out of the directory only the name is withheld,
	// even where its way comes back in; a spelled ".." that leads out is ErrEscape.
	//
	// The name itself is denied as well, as it is and in spellings that a file system
	// may take for it, so it need not exist yet. On the way to it no name can be
	// moved, removed or made a link or a file; a missing one may become a directory,
	// and a file that is there may be written in place.
	//
	// The names stay visible in a listing of the directory that holds them. Not
	// noticed: another hard link of a file inside a denied directory, or a bind mount
	// of a directory inside it, unless that is denied by its own name too
	// (HardlinksRefuse and MountsStay refuse both); a hard link or bind mount made
	// of an object that came to a denied name after the grant; and an object whose
	// file number changes while it lives and that was moved: what overlay copies up
	// has another one if it had several names (without index) or lies on another file
	// system than the upper layer (without xino), and a FUSE server may number what
	// the kernel forgot anew.
	//
	// An object that gets the number of a denied one after that is gone is denied too,
	// unless the system proves that it is another: Linux on ext4, XFS, Btrfs, F2FS and
	// tmpfs. Elsewhere it mistakes such a one, if numbers come back there.
	Deny []string
	// Before is asked immediately before each change of a name, an attribute or
	// content in place, when everything is resolved. An error refuses the change;
	// it matches ErrPolicy and that error. Afterwards the root, the directories and
	// the objects are compared again: what is not the same is ErrChanged. It is
	// called by several goroutines at a time, those of one RemoveTree among them.
	//
	// It is not asked for writes to a file that is already open, and it must not
	// call Close or Wait on a Root of the grant. When it panics the call lets go of
	// all that it holds and the panic goes on to its caller; one in a goroutine of
	// several workers ends the program. runtime.Goexit there ends the call with an
	// error.
	Before func(Mutation) error
	// Observe is told of each call when its outcome is settled. See Event.
	Observe func(Event)
	// Budget limits what the grant, with all grants made from it, may spend. Nil
	// sets no limit of its own.
	Budget *Budget
	// Context ends the grant, as Revoke does, when it is done; the errors are those
	// of the context. Nil is no context.
	Context context.Context
}

// tenure is how long a Root may be used and who watches its use. It is shared
// by the Roots that OpenRoot derives, and is the parent of those that Grant does.
type tenure struct {
	parent  *tenure // nil for a Root that was opened, not granted
	revoked atomic.Bool
	ctx     context.Context
	before  func(Mutation) error
	observe func(Event)
	ledger  *ledger // of the nearest grant that has a budget
	at      string  // canonical path below the parent's directory
	asks    bool    // this grant or one above it has Before,
	told    bool    // or Observe
	running running
}

// meters tells whether a change must know its place before it is made.
func (t *tenure) meters() bool { return t.asks || t.ledger != nil }

// holds returns why the grant has ended, or nil.
func (t *tenure) holds() error {
	for ; t != nil; t = t.parent {
		if t.revoked.Load() {
			return ErrRevoked
		}
		if t.ctx != nil && t.ctx.Err() != nil {
			return t.ctx.Err()
		}
	}
	return nil
}

// enter takes a call in. Only calls on grants are counted.
func (t *tenure) enter() error {
	if t.parent != nil {
		return t.enterAll()
	}
	if t.revoked.Load() {
		return ErrRevoked
	}
	return nil
}

// enterAll counts before it looks, so that a call which Wait does not see has
// seen the revocation.
func (t *tenure) enterAll() error {
	for g := t; g.parent != nil; g = g.parent {
		g.running.enter()
	}
	err := t.holds()
	if err != nil {
		t.leave()
	}
	return err
}

func (t *tenure) leave() {
	for ; t.parent != nil; t = t.parent {
		t.running.leave()
	}
}

// running counts calls in flight for Wait.
type running struct {
	n       atomic.Int64
	awaited atomic.Bool
	mu      sync.Mutex
	idle    chan struct{} // closed when n falls to 0; nil when nobody waits
}

func (r *running) enter() { r.n.Add(1) }

func (r *running) leave() {
	if r.n.Add(-1) != 0 || !r.awaited.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle != nil {
		close(r.idle)
		r.idle = nil
		r.awaited.Store(false)
	}
}

func (r *running) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.idle == nil {
		r.idle = make(chan struct{})
		r.awaited.Store(true)
	}
	idle := r.idle
	r.mu.Unlock()
	if r.n.Load() == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter takes a call in that will use the root's handle; leave ends it.
func (r *Root) enter() error {
	if !r.opened() {
		return errNoRoot
	}
	if err := r.life.enter(); err != nil {
		return err
	}
	if err := r.tenure.enter(); err != nil {
		r.life.leave()
		return err
	}
	return nil
}

func (r *Root) leave() {
	r.tenure.leave()
	r.life.leave()
}

var (
	verbGrant     = verb{name: "grant", needs: List, traced: true}
	verbGrantSelf = verb{name: "grant", traced: true}
)

// Grant opens the directory dir inside as a Root that can do less: what both
// policies allow, without what is denied, within the budget, until it is
// revoked or its context ends. Limits of r hold for it too: each Before is
// asked, each Observe told, each budget charged. Closing r does not close it.
// For another directory than "." it needs the right List.
//
// It returns ErrName for a name in Deny that is the directory itself, and
// ErrUnsupported where a policy with BindPath has no path to bind to.
func (r *Root) Grant(dir string, g Grant) (*Root, error) {
	var c call
	if err := c.begin(r, verbOf(dir, &verbGrant, &verbGrantSelf), dir); err != nil {
		return nil, err
	}
	defer c.end()
	sub, err := c.grant(&g)
	if err != nil {
		return nil, c.fail(err)
	}
	c.hush() // it is told as what was granted
	kept := false
	defer func() {
		if !kept {
			sub.Close() // an observer panicked
		}
	}()
	sub.tenure.tell("", Event{Name: EventGranted, Verb: verbGrant.name})
	kept = true
	return sub, nil
}

func (c *call) grant(g *Grant) (*Root, error) {
	if err := g.valid(); err != nil {
		return nil, err
	}
	h, err := c.openPlaced(pathOnly|directoryOnly, 0)
	if err != nil {
		return nil, err
	}
	up := c.r.tenure
	t := &tenure{
		parent: up, ctx: g.Context, before: g.Before, observe: g.Observe, ledger: up.ledger,
		at: under(c.r.below, c.reached()), asks: up.asks || g.Before != nil, told: up.told || g.Observe != nil,
	}
	if g.Budget != nil {
		t.ledger = newLedger(up.ledger, *g.Budget)
	}
	sub, err := c.subRoot(h, c.name, c.r.policy.Meet(g.Policy), t)
	if err != nil {
		return nil, err
	}
	sub.below = ""
	if err = sub.bind(c.r); err == nil {
		err = sub.withhold(g.Deny)
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// subRoot makes a Root of a directory that was opened at the place of the call.
// It takes h over, also when it fails.
func (c *call) subRoot(h handle, name string, p Policy, t *tenure) (*Root, error) {
	r := c.r
	if p.Containment == KernelAtomic && r.beneath == nil {
		r.sys.close(h)
		return nil, because(ErrUnsupported, "the kernel cannot resolve whole paths")
	}
	var deny *denied
	if r.deny != nil {
		at, err := c.positionOf(h)
		if err != nil {
			r.sys.close(h)
			return nil, err
		}
		deny = &denied{r.deny.list, at}
	}
	sub, err := newRoot(r.sys, h, joinDisplay(r.name, name), p, t)
	if err != nil {
		return nil, err
	}
	sub.beneath, sub.bound, sub.deny = r.beneath, r.bound, deny
	if t.parent != nil {
		sub.below = under(r.below, c.reached())
	}
	c.gives(sub)
	return sub, nil
}

// bind gives a Root whose policy says BindPath its path, where the Root it was
// derived from is not already bound by one.
func (r *Root) bind(from *Root) error {
	if r.policy.Bind != BindPath || from.policy.Bind == BindPath {
		return nil
	}
	path, ok := pathOf(r.dir)
	b := &binding{path: path, dev: r.dev, ino: r.ino}
	if !ok || b.check(r.sys) != nil {
		return because(ErrUnsupported, "the directory has no path to bind to")
	}
	r.bound = b
	return nil
}

// Revoke ends the grant that r is of, and every grant made from it, and
// returns at once: later calls, and calls in flight when they come to their next
// change, return ErrRevoked. What the kernel is already doing is done to its
// end, see Wait. A Root that was opened is ended likewise, with everything
// derived from it. An *os.File that was handed out cannot be revoked.
func (r *Root) Revoke() {
	if r.opened() && !r.tenure.revoked.Swap(true) {
		r.tenure.tell(r.below, Event{Name: EventRevoked, Verb: "revoke"})
	}
}

// Wait returns when no call runs on the grant that r is of, on Files opened
// through it, or on grants made from it; after Revoke that stays so. It returns
// the error of ctx if that ends first, and ErrUnsupported for a Root that Grant
// did not make, whose calls are not counted. A callback of the grant that waits
// for its own call waits until ctx ends.
func (r *Root) Wait(ctx context.Context) error {
	var err error
	switch {
	case !r.opened():
		err = errNoRoot
	case ctx == nil:
		err = errNoContext
	case r.tenure.parent == nil:
		err = because(ErrUnsupported, "the root is not a grant")
	default:
		err = r.tenure.running.wait(ctx)
	}
	if err != nil {
		err = &fs.PathError{Op: "wait", Path: ".", Err: err}
	}
	return err
}
