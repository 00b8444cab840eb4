package caproot

import "sync"

// Budget is what a grant may spend. It counts what was put there, not what is
// there: removing gives nothing back. Work is charged before it begins, and the
// charge is taken back only if nothing was published and the stage is seen to have
// no name left. Where a removed file keeps one while it is open (NFS, some FUSE
// file systems), and when another process took the stage, it stays charged. The
// zero value allows nothing; NoLimit is no limit.
type Budget struct {
	// Bytes is of content: published, appended, written in place, and what
	// Truncate, or a write beyond the end, adds to a file's size. So no file grows
	// by more than was spent, except that one which is shrunk during a write may grow
	// back to the size it had. Parallel writes beyond one end may each be charged for
	// the hole before them.
	Bytes int64
	// Files is of names given to something: files published or made, directories,
	// links. A file published over another counts too; a rename does not.
	Files int64
}

// Spent returns what the nearest grant with a Budget, from r upwards, has spent
// or holds reserved for calls in flight; zero if there is none.
func (r *Root) Spent() Budget {
	if !r.opened() || r.tenure.ledger == nil {
		return Budget{}
	}
	l := r.tenure.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent
}

// ledger counts for one grant and those above it. One lock serves all of a
// chain, so a charge is made on every level or on none, and no reservation that
// fails is seen by another call.
type ledger struct {
	mu     *sync.Mutex
	parent *ledger
	limit  Budget
	spent  Budget
}

func newLedger(parent *ledger, limit Budget) *ledger {
	l := &ledger{parent: parent, limit: limit}
	if parent != nil {
		l.mu = parent.mu
	} else {
		l.mu = new(sync.Mutex)
	}
	return l
}

// reserve charges b on every level. It returns ErrTooLarge, with nothing
// charged, when some level has not that much left.
func (l *ledger) reserve(b Budget) error {
	if l == nil || b == (Budget{}) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := l; at != nil; at = at.parent {
		switch {
		case b.Bytes > at.limit.Bytes-at.spent.Bytes:
			return because(ErrTooLarge, "budget of bytes is spent")
		case b.Files > at.limit.Files-at.spent.Files:
			return because(ErrTooLarge, "budget of files is spent")
		}
	}
	for at := l; at != nil; at = at.parent {
		at.spent.Bytes += b.Bytes
		at.spent.Files += b.Files
	}
	return nil
}

func (l *ledger) refund(b Budget) {
	if l == nil || b == (Budget{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := l; at != nil; at = at.parent {
		at.spent.Bytes -= b.Bytes
		at.spent.Files -= b.Files
	}
}

// pay charges a write of size bytes and the hole before it. What was not written
// is given back, and the hole with it if that is all.
func (l *ledger) pay(size int, hole int64, write func() (int, error)) (n int, err error) {
	if size == 0 {
		hole = 0
	}
	if err := l.reserve(Budget{Bytes: hole + int64(size)}); err != nil {
		return 0, err
	}
	n, err = write()
	if n > 0 {
		hole = 0
	}
	l.refund(Budget{Bytes: hole + int64(size-n)})
	return n, err
}

// spend reserves for the call. What is not kept by its end is given back.
func (c *call) spend(b Budget) error {
	if c.g == nil || b == (Budget{}) {
		return nil
	}
	err := c.r.tenure.ledger.reserve(b)
	if err == nil {
		c.g.reserved.Bytes += b.Bytes
		c.g.reserved.Files += b.Files
	}
	return err
}

// unspend gives back a part of what the call has reserved.
func (c *call) unspend(b Budget) {
	if c.g != nil {
		c.r.tenure.ledger.refund(b)
		c.g.reserved.Bytes -= b.Bytes
		c.g.reserved.Files -= b.Files
	}
}

// keep makes what the call has reserved spent.
func (c *call) keep() {
	if c.g != nil {
		c.g.reserved = Budget{}
	}
}

// settleSpent ends a reservation by whether the change was made.
func (c *call) settleSpent(made bool) {
	if made {
		c.keep()
	}
	c.refund()
}

// settleWrite keeps n of the size bytes that the call has reserved for a write.
func (c *call) settleWrite(n, size int) {
	c.unspend(Budget{Bytes: int64(size - n)})
	c.keep()
}

// affords returns ErrTooLarge when the budget has no room for so many files.
func (c *call) affords(files int64) error {
	b := Budget{Files: files}
	err := c.r.tenure.ledger.reserve(b)
	if err == nil {
		c.r.tenure.ledger.refund(b)
	}
	return err
}

// settleFile is settleSpent for the one file that an open makes, or a directory
// on the way to one; what else is reserved stays so.
func (c *call) settleFile(made bool) {
	if c.g == nil || c.g.reserved.Files == 0 {
		return
	}
	c.g.reserved.Files--
	if !made {
		c.r.tenure.ledger.refund(Budget{Files: 1})
	}
}

// settleSpent gives the reservation back if the stage, when it should be gone,
// has no name: before that anybody may give it another one, and an error of the
// call that publishes says nothing.
func (p *publication) settleSpent() {
	c := p.c
	if c.g != nil && c.g.reserved != (Budget{}) {
		c.settleSpent(!p.nameless())
	}
}

func (p *publication) nameless() bool { return isNameless(p.c.r.sys, p.file) }

// isNameless tells that nothing can name an open object any more.
func isNameless(sys system, h handle) bool {
	if sys, ok := unfenced(sys).(namelessTeller); ok {
		return sys.nameless(h)
	}
	st, err := sys.stat(h, "", false)
	return err == nil && st.nlink == 0
}

func (c *call) refund() {
	if c.g != nil {
		c.r.tenure.ledger.refund(c.g.reserved)
		c.g.reserved = Budget{}
	}
}
