package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caproot/caproot/lock"
)

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%v, want %v", err, target)
	}
}

// cancelling is the service of leases, and ends a context with the answer to the
// grant of one.
type cancelling struct {
	clientv3.Lease
	cancel context.CancelFunc
}

func (c cancelling) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	answer, err := c.Lease.Grant(ctx, ttl)
	c.cancel()
	return answer, err
}

// An acquisition that ends between the grant of its lease and its place in the
// queue leaves no lease that is renewed for ever.
func TestCancelledAtGrant(t *testing.T) {
	client := startServer(t).connect()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client.Lease = cancelling{client.Lease, cancel}
	_, err := Acquire(ctx, client, "a", Options{TTL: forever})
	want(t, err, context.Canceled)
	for {
		all, err := client.Leases(t.Context())
		must(t, err)
		if len(all.Leases) == 0 {
			break
		}
		must(t, sleep(t.Context(), 5*time.Millisecond))
	}
}

// planting is the service of keys, and has somebody else make the key first.
type planting struct {
	clientv3.KV
	t    *testing.T
	done bool
}

func (p *planting) Txn(ctx context.Context) clientv3.Txn {
	if !p.done {
		p.done = true
		granted, err := p.KV.Get(ctx, prefix, clientv3.WithPrefix())
		must(p.t, err)
		if len(granted.Kvs) > 0 {
			p.t.Error("the key is there before it was asked for")
		}
		return plantedTxn{p.KV.Txn(ctx), p}
	}
	return p.KV.Txn(ctx)
}

// plantedTxn makes its key, under no lease, before the transaction that would.
type plantedTxn struct {
	clientv3.Txn
	p *planting
}

func (x plantedTxn) If(cs ...clientv3.Cmp) clientv3.Txn { x.Txn = x.Txn.If(cs...); return x }

func (x plantedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	if ops[0].IsPut() {
		_, err := x.p.KV.Put(context.Background(), string(ops[0].KeyBytes()), "{}")
		must(x.p.t, err)
	}
	x.Txn = x.Txn.Then(ops...)
	return x
}

func (x plantedTxn) Else(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Else(ops...); return x }

// A key of one's own name that somebody else made, under no lease or another, is
// somebody else's.
func TestPlantedKey(t *testing.T) {
	client := startServer(t).connect()
	client.KV = &planting{KV: client.KV, t: t}
	_, err := TryAcquire(t.Context(), client, "a", Options{TTL: forever})
	want(t, err, lock.ErrBusy)
}

// What was never acquired answers as if it had been released.
func TestZeroValues(t *testing.T) {
	ctx := t.Context()
	_, err := Acquire(ctx, nil, "a", Options{})
	want(t, err, lock.ErrOption)
	_, err = TryAcquire(ctx, nil, "a", Options{})
	want(t, err, lock.ErrOption)
	want(t, With(ctx, nil, "a", Options{}, nil), lock.ErrOption)
	var l Lock
	must(t, l.Release())
	want(t, l.Verify(ctx), lock.ErrReleased)
	want(t, context.Cause(l.Context(ctx)), lock.ErrReleased)
	if l.Token() != 0 || l.Remaining() != 0 || l.Key() != "" {
		t.Errorf("token %d, %v remain, key %q", l.Token(), l.Remaining(), l.Key())
	}
}
