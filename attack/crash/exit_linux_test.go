package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/exitcleanup"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/scratch"
)

// exitWork is killed while it cleans up at its end, and before.
func exitWork() *work {
	return &work{
		name: "exit cleanup", term: true, litter: 3, lacks: []string{"", "tmpfile", "openat2"},
		prepare: func(s *scene) error {
			own, err := scratch.New(s.root, ".", scratch.Options{Prefix: "scratch-"})
			if err == nil {
				s.held = own
				_, err = own.Root().Put("f", []byte("alive"), caproot.PutOptions{})
			}
			return err
		},
		live: func(s *scene) error {
			exitcleanup.HandleSignals()
			exitcleanup.Main(func(ctx context.Context) int { return busy(ctx, s) })
			return errors.New("Main returned")
		},
		check: func(s *scene) []string {
			own := s.held.(*scratch.Dir)
			if data, err := own.Root().ReadFile("f"); string(data) != "alive" {
				return []string{fmt.Sprintf("the scratch directory of a living process: %q, %v", data, err)}
			}
			return nil
		},
		restore: func(s *scene) error {
			ctx, cancel := context.WithTimeout(context.Background(), s.limit)
			defer cancel()
			l, err := lock.Acquire(ctx, s.root, "t", lock.Options{})
			if err != nil {
				return err
			}
			_, err = scratch.Sweep(ctx, s.root, ".", "scratch-", 0)
			_, lerr := lock.Sweep(s.root, ".")
			return errors.Join(err, lerr, s.sweep("."), l.Release())
		},
	}
}

// busy holds what is to be cleaned up until the process is asked to end.
func busy(ctx context.Context, s *scene) int {
	d, err := scratch.New(s.root, ".", scratch.Options{Prefix: "scratch-"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := range 20 {
		if _, err := d.Root().Put(fmt.Sprint("d", i%3, "/f", i), []byte("text"), caproot.PutOptions{Parents: true}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// The record of a dead process is there, or not yet.
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := lock.Acquire(wait, s.root, "t", lock.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.ready()
	<-ctx.Done()
	return 0
}
