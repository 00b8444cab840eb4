package etcdlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// seat is a place in the queue of a lock, in front of which is the holder's: a key
// under a lease that is renewed until the seat is given up or lost.
type seat struct {
	client   *clientv3.Client
	name     string
	queue    string // prefix of the keys of the lock
	key      string
	lease    clientv3.LeaseID
	ttl      time.Duration // as the server grants it
	now      func() (time.Duration, error)
	revision int64  // the create revision of the key, 0 before it was made
	cluster  uint64 // its id
	held     atomic.Bool
	expiry   atomic.Int64 // by now

	ctx    context.Context // until the seat is lost or given up; its cause says why
	cancel context.CancelCauseFunc
	lost   chan struct{}
	mu     sync.Mutex // held over the end
	idle   sync.WaitGroup
}

// margin is what a holder takes off its time: the rates of two clocks that are
// slewed the opposite way differ by 1000 ppm (adjtimex(2) allows 500), and the
// clock of Windows has steps of up to 16 ms.
func margin(ttl time.Duration) time.Duration { return ttl/1000 + 20*time.Millisecond }

// prolong counts the time from before the request was sent: the server does from
// when it got it.
func (s *seat) prolong(start time.Duration, seconds int64) {
	ttl := time.Duration(seconds) * time.Second
	s.expiry.Store(int64(start + ttl - margin(ttl)))
}

// left is the time for which the holder may rely on the lease.
func (s *seat) left() time.Duration {
	now, err := s.now()
	if err != nil {
		return 0
	}
	return time.Duration(s.expiry.Load()) - now
}

// standing returns why the seat is not this process's any more, as far as it knows
// by itself.
func (s *seat) standing() error {
	if s.ctx.Err() == nil && s.left() <= 0 {
		s.lose(errNotRenewed)
	}
	return context.Cause(s.ctx)
}

func (s *seat) lose(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.cancel(leaseLost(s.name, why))
		close(s.lost)
	}
}

// loss returns why the seat was lost, nil if it was not.
func (s *seat) loss() error {
	select {
	case <-s.lost:
		return context.Cause(s.ctx)
	default:
		return nil
	}
}

// end ends the renewals, unless the seat was lost before.
func (s *seat) end(why error) {
	s.mu.Lock()
	s.cancel(why)
	s.mu.Unlock()
	s.idle.Wait()
}

// watch notices that the time has run out while requests hang. Timers stand still
// during a suspension, so it looks often.
func (s *seat) watch() {
	for s.standing() == nil {
		sleep(s.ctx, min(max(s.left(), time.Millisecond), s.ttl/10))
	}
}

// keep renews the lease.
func (s *seat) keep() {
	for pause := s.ttl / 3; sleep(s.ctx, pause) == nil; {
		pause = s.ttl / 3
		switch err := s.renew(); {
		case noLease(err):
			s.lose(errLeaseGone)
		case err != nil:
			pause = s.ttl / 20
		case s.held.Load():
			// Only an answer counts: the lease itself was just renewed.
			ctx, cancel := context.WithTimeout(s.ctx, s.ttl/3)
			s.confirm(ctx)
			cancel()
		}
	}
}

// renew is not KeepAliveOnce, which repeats the request without a pause while there
// is no connection, and does not tell when it sent the one that was answered.
func (s *seat) renew() error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(s.ctx), s.ttl/3)
	defer cancel()
	start, err := s.now()
	if err != nil {
		return err
	}
	stream, err := etcdserverpb.NewLeaseClient(s.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(s.lease)}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	if answer.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prolong(start, answer.TTL)
	return nil
}

// confirm asks the cluster whether the seat is in front still. An answer that it is
// not is a loss.
func (s *seat) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.ttl)
	defer cancel()
	v, err := s.look(ctx)
	if err == nil && !v.front() {
		s.lose(errKeyGone)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
