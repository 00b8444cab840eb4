package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/charlievieth/fastwalk"

	"github.com/caproot/caproot"
)

// growTree makes files in directories of a hundred, ten directories in each.
func growTree(dir string, files int) error {
	for i := 0; files > 0; i++ {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", i%10), fmt.Sprintf("d%d", i/10%10), fmt.Sprintf("d%d", i/100))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for j := range min(files, 100) {
			f, err := os.Create(filepath.Join(sub, fmt.Sprintf("file-%d.txt", j)))
			if err != nil {
				return err
			}
			f.Close()
		}
		files -= 100
	}
	return nil
}

// job is a contender that one call keeps busy, and that changes what the next
// would find.
type job struct {
	name    string
	prepare func() error // before each call, not measured
	run     func() error
}

type jobs struct {
	work string
	jobs []job
}

// runTrees is the suite of walks, removals and batches.
func runTrees(dir string, rounds int) error {
	base, err := os.MkdirTemp(dir, "caproot-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	r, err := caproot.Open(base, caproot.Workspace())
	if err != nil {
		return err
	}
	defer r.Close()
	durable := caproot.Workspace()
	durable.Durability = caproot.DurabilityDir
	d, err := caproot.Open(base, durable)
	if err != nil {
		return err
	}
	defer d.Close()
	o, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer o.Close()
	t := newTable()
	defer t.Flush()
	for _, row := range slices.Concat(batchRows(base, d), removeRows(base, r, o), walkRows(base, r, o)) {
		names, timings := make([]string, len(row.jobs)), make([]timing, len(row.jobs))
		for i, j := range row.jobs {
			names[i], timings[i] = j.name, j.once
		}
		medians, err := interleave(timings, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", row.work, err)
		}
		t.add(row.work, names, medians)
	}
	return nil
}

func (j job) once() (time.Duration, error) {
	if err := j.prepare(); err != nil {
		return 0, fmt.Errorf("%s: %w", j.name, err)
	}
	start := time.Now()
	if err := j.run(); err != nil {
		return 0, fmt.Errorf("%s: %w", j.name, err)
	}
	return time.Since(start), nil
}

// batchRows compare with as many durable puts, one after the other.
func batchRows(base string, r *caproot.Root) []jobs {
	const files = 200
	data := make([]byte, 4<<10)
	turn := 0
	fresh := func() error {
		turn++
		return os.MkdirAll(filepath.Join(base, fmt.Sprintf("batch%d", turn)), 0o755)
	}
	name := func(i int) string { return fmt.Sprintf("batch%d/%d", turn, i) }
	single := job{name: "Put", prepare: fresh, run: func() error {
		for i := range files {
			if _, err := r.Put(name(i), data, caproot.PutOptions{}); err != nil {
				return err
			}
		}
		return nil
	}}
	batch := func(barrier caproot.Barrier) job {
		return job{name: "caproot", prepare: fresh, run: func() error {
			b := r.Batch(caproot.BatchOptions{Barrier: barrier})
			for i := range files {
				if err := b.Put(name(i), data, caproot.PutOptions{}); err != nil {
					return err
				}
			}
			_, err := b.Commit(context.Background())
			return err
		}}
	}
	return []jobs{
		{"Batch of 200 durable puts, syncfs", []job{batch(caproot.BarrierFileSystem), single}},
		{"Batch of 200 durable puts, parallel fsync", []job{batch(caproot.BarrierFiles), single}},
	}
}

func removeRows(base string, r *caproot.Root, o *os.Root) []jobs {
	grow := func() error { return growTree(filepath.Join(base, "doomed"), 20000) }
	remove := func(workers int) job {
		return job{name: "caproot", prepare: grow, run: func() error {
			_, err := r.RemoveTree(context.Background(), "doomed", caproot.TreeLimits{Workers: workers})
			return err
		}}
	}
	byPath := job{name: "os.RemoveAll", prepare: grow, run: func() error { return os.RemoveAll(filepath.Join(base, "doomed")) }}
	byRoot := job{name: "os.Root.RemoveAll", prepare: grow, run: func() error { return o.RemoveAll("doomed") }}
	return []jobs{
		{"RemoveTree 20,000 files", []job{remove(1), byPath, byRoot}},
		{"RemoveTree, 4 workers", []job{remove(4), byPath, byRoot}},
	}
}

func walkRows(base string, r *caproot.Root, root *os.Root) []jobs {
	grown := sync.OnceValue(func() error { return growTree(filepath.Join(base, "tree"), 100000) })
	dir := filepath.Join(base, "tree")
	walk := func(o caproot.WalkOptions) job {
		return job{name: "caproot", prepare: grown, run: func() error {
			n := 0
			for _, err := range r.Walk(context.Background(), "tree", o) {
				if err != nil {
					return err
				}
				n++
			}
			return enough(n)
		}}
	}
	byPath := func(info bool) job {
		return job{name: "filepath.WalkDir", prepare: grown, run: func() error {
			n := 0
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if n++; info && err == nil {
					_, err = d.Info()
				}
				return err
			})
			if err != nil {
				return err
			}
			return enough(n)
		}}
	}
	byRoot := job{name: "os.Root.FS", prepare: grown, run: func() error { return walkByRoot(root) }}
	fast := func(workers int) job {
		return job{name: "fastwalk", prepare: grown, run: func() error {
			var n atomic.Int64
			err := fastwalk.Walk(&fastwalk.Config{NumWorkers: workers}, dir, func(path string, d fs.DirEntry, err error) error {
				n.Add(1)
				return err
			})
			if err != nil {
				return err
			}
			return enough(int(n.Load()))
		}}
	}
	type o = caproot.WalkOptions
	return []jobs{
		{"Walk 100,000 files", []job{walk(o{}), byPath(false), byRoot, fast(1)}},
		{"Walk, 4 workers", []job{walk(o{Workers: 4}), byPath(false), fast(4)}},
		{"Walk, sorted", []job{walk(o{Sorted: true}), byPath(false)}},
		{"Walk with metadata", []job{walk(o{Info: true}), byPath(true)}},
		{"Walk with metadata, 4 workers", []job{walk(o{Info: true, Workers: 4}), byPath(true)}},
	}
}

func walkByRoot(root *os.Root) error {
	n := 0
	err := fs.WalkDir(root.FS(), "tree", func(_ string, _ fs.DirEntry, err error) error {
		n++
		return err
	})
	if err != nil {
		return err
	}
	return enough(n)
}

func enough(n int) error {
	if n < 100000 {
		return fmt.Errorf("walked only %d entries", n)
	}
	return nil
}
