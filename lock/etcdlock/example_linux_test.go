package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/lock/etcdlock"
)

func cluster() (client *clientv3.Client, stop func()) {
	endpoint, end, err := etcdlock.StartCluster()
	if err != nil {
		log.Fatal(err)
	}
	client, err = clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		end()
	}
}

// Files below a directory that several machines share. The token goes to the fence,
// so that a holder that stood still cannot write after its successor began.
func ExampleAcquire() {
	client, stop := cluster()
	defer stop()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()

	ctx := context.Background()
	l, err := etcdlock.Acquire(ctx, client, "state.json", etcdlock.Options{TTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fence, err := lock.FenceAt(ctx, root, "state.json", l.Token())
	if err != nil {
		log.Fatal(err)
	}
	defer fence.Close()
	fenced, err := root.Fenced(fence)
	if err != nil {
		log.Fatal(err)
	}
	defer fenced.Close()
	_, err = fenced.Put("state.json", []byte("{}"), caproot.PutOptions{})
	fmt.Println(err, l.Release())
	// Output: <nil> <nil>
}

func ExampleWith() {
	client, stop := cluster()
	defer stop()
	err := etcdlock.With(context.Background(), client, "report", etcdlock.Options{}, func(ctx context.Context) error {
		_, err := etcdlock.TryAcquire(context.Background(), client, "report", etcdlock.Options{})
		fmt.Println("busy for others:", errors.Is(err, lock.ErrBusy))
		return ctx.Err() // ctx ends if the lock is lost
	})
	fmt.Println(err)
	// Output:
	// busy for others: true
	// <nil>
}

// A transaction in the same cluster that only the holder can make.
func ExampleLock_Held() {
	client, stop := cluster()
	defer stop()
	ctx := context.Background()
	l, err := etcdlock.Acquire(ctx, client, "leader", etcdlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	write := clientv3.OpPut("leader/address", "host-a:9000")
	answer, err := client.Txn(ctx).If(l.Held()).Then(write).Commit()
	fmt.Println(answer.Succeeded, err)
	fmt.Println(l.Release())
	answer, err = client.Txn(ctx).If(l.Held()).Then(write).Commit()
	fmt.Println(answer.Succeeded, err)
	// Output:
	// true <nil>
	// <nil>
	// false <nil>
}
