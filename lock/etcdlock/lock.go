// Package etcdlock has the lock of package lock for holders on many machines: it is
// kept by an etcd v3 cluster.
//
// A lock is a queue of keys below caproot/lock/NAME/, each under a lease of its own.
// The key of the lowest create revision is the holder's, and that revision its
// fencing token. Leases are renewed while the program runs, and run out when it
// does not; a client counts its own from before the request that renewed it, so it
// gives up before the server does.
//
// Clocks bound what a holder believes, not what a request on its way may do: pass
// the token to whatever the lock protects, such as lock.FenceAt for files below a
// Root, or Lock.Held for transactions in the same cluster.
//
// Renewals are safe with servers that confirm their leadership first: etcd 3.6 and
// later. Keys are relative to the client's KV, Watcher and Lease, so those of
// package clientv3/namespace move them.
package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caproot/caproot/exitcleanup"
	"github.com/caproot/caproot/internal/boottime"
	"github.com/caproot/caproot/lock"
)

// Lock is a lock that is held. Its methods are safe for concurrent use.
type Lock struct {
	seat *seat
	exit *exitcleanup.Entry

	mu       sync.Mutex // held over a release
	tried    bool
	released bool
}

var _ lock.Lock = (*Lock)(nil)

// Acquire acquires the lock of that name. Who came first, by revision, gets it
// first. It waits until ctx ends, also for a cluster that does not answer; the
// error then matches that of ctx, and ErrBusy if somebody else was seen to hold the
// lock last. After that, up to a second goes into leaving the queue. A contender
// whose own lease ran out meanwhile goes to the end of the queue.
//
// It returns ErrOption without a client, for an empty name and for options out of their range,
// ErrNested when ctx tells that the caller holds the lock, and errors of the server
// that waiting does not mend, such as a missing permission, unchanged.
func Acquire(ctx context.Context, client *clientv3.Client, name string, o Options) (*Lock, error) {
	c, err := newContender(client, name, o, boottime.Now)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx)
}

// TryAcquire makes one attempt and does not enter the queue: the error matches
// ErrBusy if there is a holder, or anybody waiting. It takes up to the TTL when the
// cluster does not answer, and returns the error of the request.
func TryAcquire(ctx context.Context, client *clientv3.Client, name string, o Options) (*Lock, error) {
	c, err := newContender(client, name, o, boottime.Now)
	if err != nil {
		return nil, err
	}
	return c.try(ctx)
}

// With calls f under the lock and releases it, also when f panics. The context of f
// is that of Lock.Context. Errors of f and of the release are both reported.
func With(ctx context.Context, client *clientv3.Client, name string, o Options, f func(ctx context.Context) error) (err error) {
	l, err := Acquire(ctx, client, name, o)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := l.Release(); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return f(l.Context(ctx))
}

// released is the seat of what was never acquired.
var released = func() *seat {
	s := &seat{lost: make(chan struct{}), now: boottime.Now}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.cancel(lock.ErrReleased)
	return s
}()

func (l *Lock) its() *seat {
	if l.seat == nil {
		return released
	}
	return l.seat
}

func hold(s *seat) *Lock {
	s.held.Store(true)
	l := &Lock{seat: s}
	l.exit = exitcleanup.Register(fmt.Sprintf("etcd lock %q", s.name), l.release)
	return l
}

// Token is the create revision of the holder's key: greater than that of every
// earlier holder, as long as the cluster keeps its data. One that was restored from
// a backup may repeat revisions, unless it was told to bump them.
func (l *Lock) Token() uint64 { return uint64(l.its().revision) }

// Key is the holder's key.
func (l *Lock) Key() string { return l.its().key }

// Held compares, in a transaction of the same cluster, that the lock is still held:
// the transaction is refused by the server if it is not.
func (l *Lock) Held() clientv3.Cmp { return l.its().unchanged() }

// Lost returns a channel that is closed when the lock is lost: when its lease was
// not renewed in time, before the server gives it to another; within a third of the
// TTL after somebody removed the key or the lease by hand. After a suspension of the
// machine it is closed within a tenth of the TTL, or by the next call of a method.
func (l *Lock) Lost() <-chan struct{} {
	l.its().standing()
	return l.its().lost
}

// Remaining is the time for which this holder may rely on the lock without another
// renewal, zero once it was lost or released.
func (l *Lock) Remaining() time.Duration {
	if l.its().standing() != nil {
		return 0
	}
	return max(0, l.its().left())
}

// Verify asks the cluster, with its quorum. It returns nil while the lock is this
// holder's, ErrLeaseLost when it is not, ErrReleased after a release, and
// the server's or the context's error when it could not find out.
func (l *Lock) Verify(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.its().standing(); err != nil {
		return err
	}
	ctx, stop := l.its().within(ctx)
	defer stop()
	err := l.its().confirm(ctx)
	if serr := l.its().standing(); serr != nil {
		return serr
	}
	return err
}

// Context is that of lock.Lock: cancelled when the lock is lost or released. Under
// it, Acquire of the same lock returns ErrNested; other kinds of locks and their
// ranks are not known.
func (l *Lock) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(within(parent, l.its()))
	end := func() { cancel(context.Cause(l.its().ctx)) }
	if l.its().standing() != nil {
		end()
		return ctx
	}
	stop := context.AfterFunc(l.its().ctx, end)
	context.AfterFunc(ctx, func() { stop() })
	return ctx
}

// Release gives the lock up at once, as far as this holder goes, and removes its
// key. It returns ErrLeaseLost if the lock was lost before; nothing of another
// holder is touched. After any other error the cluster may still keep others
// waiting, until the lease, which is not renewed any more, runs out; Release may be
// called again. It waits for the cluster up to the TTL. Once released, it does
// nothing.
func (l *Lock) Release() error { return l.release(context.Background()) }

func (l *Lock) release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released || l.seat == nil {
		return nil
	}
	l.seat.standing() // a lease that has run out was lost, not released
	l.seat.end(lock.ErrReleased)
	loss := l.seat.loss()
	if loss != nil {
		l.seat.abandon()
	} else if ours, err := l.seat.vacate(ctx); err != nil {
		l.tried = true
		return fmt.Errorf("release of lock %s: %w", l.seat.name, err)
	} else if !ours && !l.tried {
		// A release that got no answer before may have removed the key.
		loss = leaseLost(l.seat.name, errKeyGone)
	}
	l.released = true
	l.exit.Cancel()
	return loss
}
