package etcdlock

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const prefix = "caproot/lock/"

// queueOf is the prefix of the keys of a lock. The name is escaped, so that no
// queue lies within that of another.
func queueOf(name string) string { return prefix + url.PathEscape(name) + "/" }

// openSeat gets a lease and renews it. Nobody sees it before enter.
func openSeat(ctx context.Context, c *contender) (*seat, error) {
	start, err := c.now()
	if err != nil {
		return nil, err
	}
	granted, err := c.client.Grant(ctx, c.o.seconds())
	if err != nil {
		return nil, err
	}
	s := &seat{
		client: c.client, name: c.name, queue: c.queue, now: c.now, lost: make(chan struct{}),
		lease: granted.ID, key: fmt.Sprintf("%s%016x", c.queue, uint64(granted.ID)),
		ttl: time.Duration(granted.TTL) * time.Second, cluster: granted.ClusterId,
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.prolong(start, granted.TTL)
	s.idle.Go(s.watch)
	s.idle.Go(s.keep)
	return s, nil
}

// within derives a context that ends with the seat too.
func (s *seat) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func absent(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
}

func (s *seat) unchanged() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.key), "=", s.revision)
}

// view is what one transaction saw of the queue.
type view struct {
	at      int64            // the revision it was seen at
	present bool             // the seat is in the queue
	ahead   *mvccpb.KeyValue // who has the seat before it, nil at the front
	holder  *mvccpb.KeyValue // who has the front, nil if the queue is empty
}

func (v *view) front() bool { return v.present && v.ahead == nil }

// enter makes the key of the seat, if the condition holds. Made again after a lost
// answer it finds the key of the first time. One of that name under another lease
// is somebody else's.
func (s *seat) enter(ctx context.Context, condition clientv3.Cmp, record []byte) (v view, err error) {
	own, front := clientv3.OpGet(s.key), clientv3.OpGet(s.queue, clientv3.WithFirstCreate()...)
	answer, err := s.client.Txn(ctx).If(condition).
		Then(clientv3.OpPut(s.key, string(record), clientv3.WithLease(s.lease)), own, front).
		Else(own, front).Commit()
	if err != nil {
		return v, err
	}
	v.at = answer.Header.Revision
	gets := answer.Responses[len(answer.Responses)-2:]
	v.holder = first(gets[1].GetResponseRange().Kvs)
	if kv := first(gets[0].GetResponseRange().Kvs); kv != nil && kv.Lease == int64(s.lease) {
		s.revision = kv.CreateRevision
		v.present = true
		if v.holder.CreateRevision != s.revision {
			v.ahead = v.holder
		}
	}
	return v, nil
}

// look reads the seat and the one before it at one revision.
func (s *seat) look(ctx context.Context) (v view, err error) {
	answer, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.queue, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(s.revision),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(2)),
		clientv3.OpGet(s.queue, clientv3.WithFirstCreate()...),
	).Commit()
	if err != nil {
		return v, err
	}
	v.at = answer.Header.Revision
	v.holder = first(answer.Responses[1].GetResponseRange().Kvs)
	kvs := answer.Responses[0].GetResponseRange().Kvs
	own := first(kvs)
	v.present = own != nil && string(own.Key) == s.key && own.CreateRevision == s.revision && own.Lease == int64(s.lease)
	if v.present {
		v.ahead = first(kvs[1:])
	}
	return v, nil
}

// awaitChange returns when the key is deleted, or when it is time to look again:
// a cluster that was restored to an earlier revision sends no such event.
func (s *seat) awaitChange(ctx context.Context, kv *mvccpb.KeyValue, since int64) (deleted bool) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.ttl)
	defer cancel()
	for event := range s.client.Watch(ctx, string(kv.Key), clientv3.WithRev(since+1), clientv3.WithFilterPut()) {
		if event.Err() != nil || len(event.Events) > 0 {
			return event.Err() == nil
		}
	}
	return false
}

// vacate removes the key, if it is the seat's own, and the lease with anything else
// that it has. ours tells whether there was such a key.
func (s *seat) vacate(ctx context.Context) (ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.ttl)
	defer cancel()
	answer, err := s.client.Txn(ctx).If(s.unchanged()).Then(clientv3.OpDelete(s.key)).Commit()
	if err != nil {
		return false, err
	}
	// The lease has nothing any more, and runs out if this fails.
	s.client.Revoke(ctx, s.lease)
	return answer.Succeeded, nil
}

// leaving bounds what an acquisition that ended without the lock does afterwards.
const leaving = time.Second

// abandon gives the seat up, whatever the answer to enter was.
func (s *seat) abandon() {
	s.end(errAbandoned)
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	s.client.Revoke(ctx, s.lease)
}

func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
