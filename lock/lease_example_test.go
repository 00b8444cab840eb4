package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// A holder whose lease has gone to a successor is refused at the write itself,
// whatever it still believes.
func ExampleAcquireLease() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	r, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		panic(err)
	}
	defer r.Close()

	ctx := context.Background()
	l, err := lock.AcquireLease(ctx, r, "report", lock.LeaseOptions{TTL: time.Minute})
	if err != nil {
		panic(err)
	}
	fenced, err := r.Fenced(l)
	if err != nil {
		panic(err)
	}
	defer fenced.Close()
	_, err = fenced.Put("report", []byte("first"), caproot.PutOptions{})
	fmt.Println("token", l.Token(), err)

	if err := l.Release(); err != nil {
		panic(err)
	}
	next, err := lock.AcquireLease(ctx, r, "report", lock.LeaseOptions{})
	if err != nil {
		panic(err)
	}
	defer next.Release()
	_, err = fenced.Put("report", []byte("too late"), caproot.PutOptions{})
	fmt.Println("token", next.Token(), errors.Is(err, lock.ErrFenced))
	// Output:
	// token 1 <nil>
	// token 2 true
}
