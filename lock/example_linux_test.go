package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// Work under a lock. Whoever holds it may be killed at any point: the next one
// has it at once, and a live holder is never robbed.
func ExampleWith() {
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
	err = lock.With(context.Background(), root, "state.json", lock.Options{}, func(ctx context.Context) error {
		_, err := lock.TryAcquire(context.Background(), root, "state.json", lock.Options{})
		fmt.Println("busy for others:", errors.Is(err, lock.ErrBusy))
		_, err = lock.Acquire(ctx, root, "state.json", lock.Options{})
		fmt.Println("nested:", errors.Is(err, lock.ErrNested))
		_, err = root.Put("state.json", []byte("{}"), caproot.PutOptions{})
		return err
	})
	status, _ := lock.Inspect(context.Background(), root, "state.json", lock.Options{})
	fmt.Println(err, status.State)
	// Output:
	// busy for others: true
	// nested: true
	// <nil> free
}
