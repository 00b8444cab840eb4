package state_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

func Example() {
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

	type visits struct{ Count int }
	visit := func(v *visits) error { v.Count++; return nil }
	ctx := context.Background()
	for range 3 {
		if err := state.Update(ctx, r, "visits.json", visit, state.Options{}); err != nil {
			panic(err)
		}
	}
	// With a lease, a process that stood still does not overwrite its successor.
	if err := state.Update(ctx, r, "visits.json", visit, state.Options{Lease: &lock.LeaseOptions{}}); err != nil {
		panic(err)
	}
	v, err := state.Read[visits](r, "visits.json")
	fmt.Println(v.Count, err)
	// Output: 4 <nil>
}

func ExampleMerge() {
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

	for worker, done := range map[string]int{"a": 2, "b": 3} {
		if err := state.PutFragment(r, "progress", worker, done, state.Options{}); err != nil {
			panic(err)
		}
	}
	err = state.Merge(context.Background(), r, "progress", func(total *map[string]int, worker string, done int) error {
		if *total == nil {
			*total = map[string]int{}
		}
		(*total)[worker] = done
		return nil
	}, state.Options{})
	if err != nil {
		panic(err)
	}
	total, err := state.Read[map[string]int](r, "progress")
	fmt.Println(total, err)
	// Output: map[a:2 b:3] <nil>
}
