package lock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/exitcleanup"
)

// leaseAcquisition is one call of AcquireLease.
type leaseAcquisition struct {
	acquisition // its request, and what it knows of records and guards
	lo          LeaseOptions
	clock       clock
	file        *fenceFile
	seen        sighting
}

// sighting is what was first seen when, by the observer's clock.
type sighting struct {
	mark  string // fence and record
	since time.Duration
}

func acquireLease(ctx context.Context, r *caproot.Root, target string, o LeaseOptions, c clock) (*Lease, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	q := request{ctx: ctx, r: r, target: target, o: Options{LockPath: o.LockPath, Rank: o.Rank}}
	if err := q.o.complete(); err != nil {
		return nil, err
	}
	if err := q.inOrder(); err != nil {
		return nil, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	if r == nil {
		return nil, errNoRoot("lock", target)
	}
	const needs = caproot.Modify | caproot.Mkdir | caproot.Move
	if r.Policy().Rights&needs != needs {
		return nil, &fs.PathError{Op: "lock", Path: target, Err: caproot.ErrPolicy}
	}
	if err := q.locate(); err != nil {
		return nil, err
	}
	a := leaseAcquisition{acquisition: acquisition{request: &q, started: time.Now()}, lo: o, clock: c}
	l, err := a.run(r)
	if err != nil {
		q.place.close()
		return nil, err
	}
	return l, nil
}

func (a *leaseAcquisition) run(r *caproot.Root) (l *Lease, err error) {
	if a.nested() {
		return nil, ErrNested
	}
	// A record whose name leaves no room for that could never be evicted.
	if _, err = a.place.dir.Lexists(a.place.evicted()); err != nil {
		return nil, err
	}
	if a.file, err = openFence(r, a.place.lockPath); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.file.close())
		}
	}()
	ctx, cancel := context.WithTimeout(a.ctx, a.lo.Timeout)
	defer cancel()
	for {
		a.tries++
		l, err := a.try()
		switch {
		case err != nil || l != nil:
			return l, err
		case errors.Is(a.ctx.Err(), context.Canceled):
			return nil, context.Cause(a.ctx)
		case ctx.Err() != nil:
			return nil, a.busy()
		}
		sleep(ctx, a.pollPause())
	}
}

// pollPause is short beside the TTL, which is not known for all that may be in
// the way, and varied, so that contenders do not meet for ever.
func (a *leaseAcquisition) pollPause() time.Duration {
	longest := min(a.lo.Heartbeat/2, time.Duration(a.tries)*2*time.Millisecond, 50*time.Millisecond)
	return longest/2 + mathrand.N(longest/2)
}

// busy says who is in the way.
func (a *leaseAcquisition) busy() error {
	o, err := a.look()
	if err != nil {
		return err
	}
	defer o.close()
	if o.file != nil && !o.isLease && o.unreadable() {
		return &StaleError{LockPath: a.place.lockPath, Since: o.mtime, Empty: len(o.text) == 0}
	}
	busy := &BusyError{LockPath: a.place.lockPath, Attempts: a.tries, Waited: time.Since(a.started), Err: a.ctx.Err()}
	text, _, _ := splitRecord(o.text)
	busy.Payload, _ = parseObject(text)
	return busy
}

// try takes the lease if it is free, or another's that has ended. It returns
// neither when that is not so yet.
func (a *leaseAcquisition) try() (*Lease, error) {
	o, err := a.look()
	if err != nil {
		return nil, err
	}
	defer o.close()
	if ended, err := a.ended(o); err != nil || !ended {
		return nil, err
	}
	return a.take(o)
}

// ended judges what was seen. Fence and record must both be of nobody, or of
// somebody whose time is over.
func (a *leaseAcquisition) ended(o *observation) (bool, error) {
	now, err := a.clock.now()
	if err != nil {
		return false, err
	}
	if mark := o.mark(); a.seen.mark != mark {
		a.seen = sighting{mark, now}
	}
	unchanged := now - a.seen.since
	if o.fence.state == slotExternal {
		return false, errExternal
	}
	if !a.fenceEnded(o, unchanged) {
		return false, nil
	}
	return a.recordEnded(o, unchanged)
}

func (a *leaseAcquisition) fenceEnded(o *observation, unchanged time.Duration) bool {
	return o.fence.state == slotFree || o.fence.process.liveness() == NotRunning ||
		unchanged >= drifted(o.fence.ttl)+a.lo.Grace
}

// drifted allows for clocks of different speed: quartz is good to 0.01 %, and
// clocks are slewed by 0.05 %.
func drifted(ttl time.Duration) time.Duration { return ttl + ttl/100 + time.Millisecond }

// recordEnded judges the record. Of a lease of this fence, the fence says it. That
// of a lease of another one, which was deleted, has a time of its own. Any other
// is a lock of Acquire or of a peer: without proof of death it stays.
func (a *leaseAcquisition) recordEnded(o *observation, unchanged time.Duration) (bool, error) {
	switch {
	case o.file == nil || o.ofFence():
		return true, nil
	case o.isLease:
		return o.record.Liveness() == NotRunning || unchanged >= drifted(o.record.TTL())+a.lo.Grace, nil
	}
	if err := flock(o.file, false); err != nil {
		return false, nil // its holder lives, or nothing can be proved
	}
	defer funlock(o.file)
	return a.provesDeath(a.place.leaf, o.file)
}

// take issues the next token to this process and evicts what was judged, in one
// transition.
func (a *leaseAcquisition) take(o *observation) (l *Lease, err error) {
	if in, err := a.passGuard(nil); in != nil || err != nil {
		in.drop()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(a.ctx, max(a.lo.Timeout, a.lo.TTL))
	defer cancel()
	unlock, err := a.file.exclusive(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = nil // a change or a transition of another takes long
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	start, err := a.clock.now()
	if err != nil {
		return nil, err
	}
	v, err := a.file.current()
	if err != nil || v.raw != o.fence.raw {
		return nil, err
	}
	if v.token == math.MaxUint64 {
		return nil, fmt.Errorf("%w: no token is greater than its last", ErrFenceLost)
	}
	l = a.newLease(&v)
	held := fenceSlot{token: v.token + 1, holder: l.id, state: slotHeld, ttl: a.lo.TTL, process: l.record.mark()}
	// The token first: were it issued after the eviction, a holder in between would
	// have none, and the one evicted could go on writing.
	if err := a.file.advance(&v, held); err != nil {
		return nil, err
	}
	ok, err := a.occupy(l, o)
	if ok && err == nil {
		err = a.file.beat(l.id, 0)
	}
	if ok && err == nil {
		if l.fence, err = a.newFence(held.token, l); err == nil {
			l.expiry.Store(int64(start + a.lo.TTL))
			l.begin()
			return l, nil
		}
	}
	if l.recordOf != nil {
		if rerr := a.place.dir.RemoveSame(a.place.leaf, l.recordOf); !gone(rerr) {
			err = errors.Join(err, rerr)
		}
		err = errors.Join(err, l.recordOf.Close())
	}
	if v, verr := a.file.current(); verr == nil {
		held.state = slotFree
		err = errors.Join(err, a.file.advance(&v, held))
	}
	return nil, err
}

func (a *leaseAcquisition) newLease(v *fenceView) *Lease {
	l := &Lease{
		o: a.lo, clock: a.clock, key: a.key, place: a.place, file: a.file, token: newToken(),
		lost: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	rand.Read(l.id[:])
	now := time.Now()
	l.record = LeaseRecord{
		LockID: hex.EncodeToString(l.id[:]), Resource: a.target, OwnerID: a.lo.Owner, AcquiredAt: now, HeartbeatAt: now,
		TTLMs: a.lo.TTL.Milliseconds(), FencingToken: v.token + 1, Fence: hex.EncodeToString(v.epoch[:]),
	}
	l.record.thisHolder()
	return l
}

// newFence opens the fence once more: a lock belongs to an open file, and the
// shared lock of changes must not become the exclusive one of a renewal.
func (a *leaseAcquisition) newFence(token uint64, l *Lease) (*Fence, error) {
	file, err := openFence(a.file.root, a.place.lockPath)
	if err != nil {
		return nil, err
	}
	if file.epoch != a.file.epoch {
		return nil, errors.Join(ErrFenceLost, file.close())
	}
	if err := excluded(file.file); err != nil {
		return nil, errors.Join(err, file.close())
	}
	return holdFence(file, token, l.standing), nil
}

// excluded sees that the lock of the transition under way keeps another open file
// out. A file system may accept every lock and enforce none; then a fence is none.
func excluded(f *os.File) error {
	switch err := lockFile(f, true, false, false); {
	case err == errLocked:
		return nil
	case err != nil:
		return err
	}
	return errors.Join(fmt.Errorf("%w: locks of the file system exclude nobody", ErrUnsupported), unlockFile(f, false))
}

// begin starts what a held lease does.
func (l *Lease) begin() {
	l.alive.Store(true)
	l.exit = exitcleanup.Register("lease of "+l.place.lockPath, l.cleanUp)
	go l.beatLoop()
}

// occupy puts this lease's record in the place of the one that was judged. It
// returns false when somebody else was there first.
func (a *leaseAcquisition) occupy(l *Lease, o *observation) (bool, error) {
	if o.file != nil {
		if ok, err := a.evict(o); !ok || err != nil {
			return false, err
		}
	}
	text, err := l.record.encode(l.token)
	if err == nil {
		_, err = a.place.dir.Put(a.place.leaf, text, caproot.PutOptions{Mode: 0o600, NoReplace: true})
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, a.openError(err)
	}
	f, err := a.place.dir.OpenFileNoFollow(a.place.leaf, os.O_RDWR|openNonBlocking, 0)
	if err != nil {
		return false, a.openError(err)
	}
	raw, err := readRecord(f, int64(len(text)))
	if errors.Is(err, ErrTooLarge) {
		err = nil
	}
	if err != nil || string(raw) != string(text) {
		return false, errors.Join(err, f.Close()) // replaced by somebody: not ours to remove
	}
	l.recordOf, l.written = f, text
	// Whoever was inside a guard that was made meanwhile must be done first.
	in, err := a.passGuard(nil)
	in.drop()
	return in == nil && err == nil, err
}
