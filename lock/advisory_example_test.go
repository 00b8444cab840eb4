package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

func ExampleAcquireAdvisory() {
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
	l, err := lock.AcquireAdvisory(ctx, r, "cache.flock", lock.AdvisoryOptions{Shared: true})
	if err != nil {
		panic(err)
	}
	_, err = lock.TryAdvisory(ctx, r, "cache.flock", lock.AdvisoryOptions{})
	fmt.Println(errors.Is(err, lock.ErrBusy))
	fmt.Println(l.Release())
	// Output:
	// true
	// <nil>
}
