package lock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/exitcleanup"
)

// Lease is a lock that lasts for a time and is renewed while the program runs: for
// file systems whose locks do not prove the death of a holder, and for holders on
// several machines. Its methods are safe for concurrent use.
//
// A holder that stood still may learn late that another one has the lease. What
// keeps it from writing then is the fence: pass the lease to Root.Fenced.
type Lease struct {
	o      LeaseOptions
	clock  clock
	key    key
	place  place
	file   *fenceFile // for transitions
	fence  *Fence
	id     leaseID
	token  [tokenBytes]byte // of the record, for peers
	alive  atomic.Bool      // until released
	lost   chan struct{}
	expiry atomic.Int64 // by clock, counted from the start of the last renewal
	exit   *exitcleanup.Entry
	stop   chan struct{} // closed to end the beats
	done   chan struct{} // closed when they have ended

	mu       sync.Mutex // held over a renewal and a release
	record   LeaseRecord
	recordOf *os.File // kept open: beats go to the file that was made, or nowhere
	written  []byte   // its content; nil when a write failed
	beats    uint64
	late     bool
	released bool

	state struct {
		sync.Mutex
		why error // of the loss
	}
	ctxs contexts
}

var (
	_ Lock          = (*Lease)(nil)
	_ caproot.Fence = (*Lease)(nil)
)

// AcquireLease acquires the lease of target, a name below r. Its record is the
// file target with ".lock" added, as that of Acquire, with which it excludes; its
// tokens come from a file below .caproot/fence in r, so all holders must use a Root
// of the same directory. Both must be on a file system whose locks every possible
// holder shares: those of one machine, or NFS.
//
// Another holder's lease has run out when nothing of it changed for its TTL, by
// this process's own clock, which goes on during a suspension; wall clocks are not
// compared. It ends earlier for a holder that is proved dead: equal host, boot and
// PID namespace, and no process of its id and start time. Before that, and for a
// record that no lease has, the error matches ErrBusy, or ErrStale for one that is
// not readable and older than its grace.
//
// It needs the rights Read, List, Create, Modify, Mkdir, Move and Remove. It returns
// ErrOption for options out of their range, ErrNested and ErrOrder as Acquire does,
// ErrFenceLost when the fence file is damaged, and ErrUnsupported where the file
// system has no locks.
func AcquireLease(ctx context.Context, r *caproot.Root, target string, o LeaseOptions) (*Lease, error) {
	return acquireLease(ctx, r, target, o, bootClock{})
}

// Token is the fencing token: greater than every one issued before for the
// resource, whatever died, or was deleted but the fence file itself.
func (l *Lease) Token() uint64 { return l.fence.Token() }

// Lost returns a channel that is closed when the lease is found lost.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Enter makes the lease a caproot.Fence; see Fence.Enter.
func (l *Lease) Enter() (leave func(), err error) { return l.fence.Enter() }

// Expired reports whether the lease was released or lost, or not renewed in time.
// Expired leases stay expired.
func (l *Lease) Expired() bool { return !l.alive.Load() || l.standing() != nil }

// Record returns what the record says since the last beat.
func (l *Lease) Record() LeaseRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record
}

// standing returns why the lease is not this holder's any more, as far as this
// process knows by itself.
func (l *Lease) standing() error {
	if why := l.loss(); why != nil {
		return why
	}
	if !l.alive.Load() {
		return ErrReleased
	}
	now, err := l.clock.now()
	if err == nil && int64(now) < l.expiry.Load() {
		return nil
	}
	if err == nil {
		err = errNotRenewed
	}
	return l.lose(fmt.Errorf("%w: %w", ErrLeaseLost, err))
}

var (
	errNotRenewed = errors.New("it was not renewed in time")
	errEvicted    = errors.New("another holder has it")
	errTorn       = errors.New("the record is torn or not a lease's")
)

func (l *Lease) loss() error {
	l.state.Lock()
	defer l.state.Unlock()
	return l.state.why
}

// lose reports the loss, once, and returns the reason that was first.
func (l *Lease) lose(why error) error {
	l.state.Lock()
	defer l.state.Unlock()
	if l.state.why != nil {
		return l.state.why
	}
	l.state.why = why
	close(l.lost)
	l.ctxs.end(why)
	if l.o.OnEvicted != nil {
		go l.o.OnEvicted(why)
	}
	return why
}

// Context is that of Lock: cancelled when the lease is lost or released.
func (l *Lease) Context(parent context.Context) context.Context {
	a := ancestor{key: l.key, record: l.place.key(), rank: l.o.Rank, alive: &l.alive}
	if !l.alive.Load() {
		l.ctxs.end(ErrReleased)
	}
	return l.ctxs.derive(within(parent, a))
}

// Verify asks the fence and the record. It returns nil while the lease is this
// holder's, an error that matches ErrLeaseLost when it is not, ErrFenced once it was
// released, and the system's when it could not find out.
func (l *Lease) Verify(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	leave, err := l.fence.Enter()
	if l.alive.Load() && (errors.Is(err, ErrFenced) || errors.Is(err, ErrFenceLost)) {
		return l.lose(fmt.Errorf("%w: %w", ErrLeaseLost, err))
	}
	if err != nil {
		return err
	}
	defer leave()
	return l.recordLoss(l.place.dir.CheckSame(l.place.leaf, l.recordOf))
}

// recordLoss makes a change of the record a loss of the lease.
func (l *Lease) recordLoss(err error) error {
	if gone(err) {
		return l.lose(fmt.Errorf("%w: the record was removed or replaced: %w", ErrLeaseLost, changedRecord(l.place.lockPath)))
	}
	return err
}

// changedRecord hides that a record may be absent: nothing else is meant by it.
func changedRecord(lockPath string) error {
	return &RecordError{lockPath, caproot.ErrChanged}
}

// Extend renews the lease now, and from now on for ttl, of which zero is what it
// was. It returns ErrOption for a ttl out of range or of less than two heartbeats,
// ErrLeaseLost when it is too late, and other errors when it did not work this time;
// then the lease is as it was before.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	o := l.o
	if ttl != 0 {
		o.TTL = ttl
	}
	if err := o.complete(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ttl == 0 {
		ttl = l.record.TTL()
	}
	return l.renew(ctx, ttl)
}

func (l *Lease) String() string {
	return fmt.Sprintf("lease %s of %s, token %d", hex.EncodeToString(l.id[:]), l.place.lockPath, l.Token())
}
