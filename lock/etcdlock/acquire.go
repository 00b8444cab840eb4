package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caproot/caproot/lock"
)

// contender is an acquisition at work.
type contender struct {
	client *clientv3.Client
	name   string
	queue  string
	o      Options
	record []byte
	now    func() (time.Duration, error)

	began   time.Time
	looks   int
	holder  *mvccpb.KeyValue // the last answer of the cluster, nil without one
	trouble error            // of the last request that got no answer
}

func newContender(client *clientv3.Client, name string, o Options, now func() (time.Duration, error)) (*contender, error) {
	switch {
	case client == nil:
		return nil, fmt.Errorf("%w: no client", lock.ErrOption)
	case name == "":
		return nil, fmt.Errorf("%w: empty name", lock.ErrOption)
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	record, err := o.record()
	if err != nil {
		return nil, err
	}
	return &contender{client: client, name: name, queue: queueOf(name), o: o, record: record, now: now, began: time.Now()}, nil
}

// acquire takes seats until one of them comes to the front.
func (c *contender) acquire(ctx context.Context) (*Lock, error) {
	for {
		l, err := c.takeSeat(ctx)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			return nil, c.ended(ctx)
		case !errors.Is(err, lock.ErrLeaseLost) && !noLease(err):
			return nil, err
		}
		// It was lost while it waited.
		if err := sleep(ctx, shortestPause); err != nil {
			return nil, c.ended(ctx)
		}
	}
}

// takeSeat waits in one seat.
func (c *contender) takeSeat(ctx context.Context) (*Lock, error) {
	var s *seat
	err := c.persist(ctx, func(ctx context.Context) (err error) {
		s, err = openSeat(ctx, c)
		return err
	})
	if err != nil {
		if s != nil { // ctx ended as it was granted
			s.abandon()
		}
		return nil, err
	}
	return s.finish(c.reachFront(ctx, s))
}

// finish is the lock of a seat that is in front, unless err says that it is not.
func (s *seat) finish(err error) (*Lock, error) {
	if err == nil {
		err = s.standing()
	}
	if err != nil {
		s.abandon()
		return nil, err
	}
	return hold(s), nil
}

// reachFront returns nil when the cluster has said that the seat is in front.
func (c *contender) reachFront(ctx context.Context, s *seat) error {
	bound, stop := s.within(ctx)
	defer stop()
	v, err := c.ask(bound, func(ctx context.Context) (view, error) {
		return s.enter(ctx, absent(s.key), c.record)
	})
	if err == nil && v.front() {
		return nil
	}
	for err == nil {
		v, err = c.ask(bound, s.look)
		switch {
		case err != nil:
		case !v.present:
			err = leaseLost(c.name, errKeyGone)
		case v.front():
			return nil
		case heldAround(ctx, s.cluster, v.holder):
			err = c.nested()
		case !s.awaitChange(bound, v.ahead, v.at):
			err = sleep(bound, shortestPause)
		}
	}
	return err
}

// ask gets a view of the queue from the cluster.
func (c *contender) ask(ctx context.Context, request func(context.Context) (view, error)) (v view, err error) {
	err = c.persist(ctx, func(ctx context.Context) (err error) {
		v, err = request(ctx)
		return err
	})
	if err == nil {
		c.looks++
		c.holder = v.holder
	}
	return v, err
}

// try takes a seat only if the queue is empty.
func (c *contender) try(ctx context.Context) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.TTL)
	defer cancel()
	c.looks = 1
	// Most attempts end here, without a write.
	front, err := c.client.Get(ctx, c.queue, clientv3.WithFirstCreate()...)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", c.name, err)
	}
	if c.holder = first(front.Kvs); c.holder != nil {
		return nil, c.refusal(ctx, front.Header.ClusterId)
	}
	s, err := openSeat(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", c.name, err)
	}
	v, err := s.enter(ctx, absent(c.queue).WithPrefix(), c.record)
	if err == nil && !v.present {
		c.holder = v.holder
		err = c.refusal(ctx, s.cluster)
	}
	return s.finish(err)
}

const (
	shortestPause = 20 * time.Millisecond
	longestPause  = time.Second
)

// persist makes a request until it is answered. One that takes longer than the TTL
// would be answered in vain.
func (c *contender) persist(ctx context.Context, request func(context.Context) error) error {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		bounded, cancel := context.WithTimeout(ctx, c.o.TTL)
		err := request(bounded)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil || !transient(err) || c.client.Ctx().Err() != nil {
			return err
		}
		c.holder, c.trouble = nil, err
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// ended is the error of an acquisition whose context ended.
func (c *contender) ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case c.holder != nil:
		return c.busy(cause)
	case c.trouble != nil:
		return fmt.Errorf("lock %s: %w; the cluster: %w", c.name, cause, c.trouble)
	}
	return fmt.Errorf("lock %s: %w", c.name, cause)
}

func (c *contender) refusal(ctx context.Context, cluster uint64) error {
	if heldAround(ctx, cluster, c.holder) {
		return c.nested()
	}
	return c.busy(nil)
}

func (c *contender) nested() error { return fmt.Errorf("%w: %s", lock.ErrNested, c.name) }

func (c *contender) busy(cause error) error {
	e := &lock.BusyError{LockPath: c.name, Attempts: c.looks, Waited: time.Since(c.began), Err: cause}
	e.Payload, e.Own = payload(c.holder.Value)
	return e
}

type ancestryKey struct{}

// ancestor is a lock that is held around a call.
type ancestor struct {
	seat  *seat
	outer *ancestor
}

func within(ctx context.Context, s *seat) context.Context {
	outer, _ := ctx.Value(ancestryKey{}).(*ancestor)
	return context.WithValue(ctx, ancestryKey{}, &ancestor{s, outer})
}

// heldAround reports whether the holder is an ancestor of the call: it would be
// waited for in vain. Names do not tell, because clients may have namespaces.
func heldAround(ctx context.Context, cluster uint64, holder *mvccpb.KeyValue) bool {
	a, _ := ctx.Value(ancestryKey{}).(*ancestor)
	for ; a != nil; a = a.outer {
		s := a.seat
		if s.standing() == nil && s.cluster == cluster && holder.Lease == int64(s.lease) && holder.CreateRevision == s.revision {
			return true
		}
	}
	return false
}
