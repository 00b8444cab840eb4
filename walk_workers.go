package caproot

import (
	"sync"
	"sync/atomic"
)

const (
	maxWorkers   = 64
	batchEntries = 256 // entries a worker hands over at once
	batchDirs    = 16  // directories they may be in, which stay open until then
)

// found is what a worker has seen.
type found struct {
	entry Entry
	err   error
}

// batch is what a worker hands over. It keeps the directories of its entries open.
type batch struct {
	found []found
	dirs  []*walkDir
}

func (b *batch) release() {
	for _, d := range b.dirs {
		d.release()
	}
	clear(b.found)
	b.found, b.dirs = b.found[:0], b.dirs[:0]
}

// crew is the workers of one walk. Each goes depth first on its own strand and
// gives directories away as long as there is room in the queue, so the number
// of open directories is bounded by the number of workers.
type crew struct {
	w       *walking
	tasks   chan *walkDir
	batches chan *batch
	free    chan *batch
	quit    chan struct{} // nobody wants to see more
	idle    chan struct{} // all is walked and handed over
	exited  chan struct{} // a callback ended the goroutine of a worker
	open    atomic.Int64  // directories given away and not walked yet
	workers sync.WaitGroup
}

func (w *walking) parallel(first *walkDir, yield func(Entry, error) bool) {
	n := min(w.o.Workers, maxWorkers)
	k := &crew{
		w: w, tasks: make(chan *walkDir, 2*n), batches: make(chan *batch, n), free: make(chan *batch, 2*n),
		quit: make(chan struct{}), idle: make(chan struct{}), exited: make(chan struct{}, n),
	}
	k.give(first)
	for range n {
		k.workers.Go(k.work)
	}
	// A panic of the loop's body must end the workers too.
	defer k.end()
	k.deliver(yield)
}

// deliver hands over what the workers find, until all is seen or yield is false.
func (k *crew) deliver(yield func(Entry, error) bool) {
	for {
		select {
		case b := <-k.batches:
			if !k.see(b, yield) {
				return
			}
		case <-k.exited:
			yield(k.w.c.r.unlisted(k.w.c.name), k.w.c.fail(errExited))
			return
		case <-k.idle:
			for {
				select {
				case b := <-k.batches:
					if !k.see(b, yield) {
						return
					}
				default:
					return
				}
			}
		}
	}
}

func (k *crew) see(b *batch, yield func(Entry, error) bool) bool {
	defer k.recycle(b)
	for _, f := range b.found {
		k.w.note(f.err)
		if !yield(f.entry, f.err) || f.err != nil && k.w.fatal(f.err) {
			return false
		}
	}
	return true
}

func (k *crew) recycle(b *batch) {
	b.release()
	select {
	case k.free <- b:
	default:
	}
}

// end stops the workers and closes what they left.
func (k *crew) end() {
	close(k.quit)
	k.workers.Wait()
	close(k.batches)
	for b := range k.batches {
		b.release()
	}
	close(k.tasks)
	for d := range k.tasks {
		d.release()
	}
}

// give queues a directory for any worker, unless there are enough.
func (k *crew) give(d *walkDir) bool {
	k.open.Add(1)
	select {
	case k.tasks <- d:
		return true
	default:
		k.open.Add(-1)
		return false
	}
}

func (k *crew) work() {
	s := strand{w: k.w, crew: k}
	for {
		select {
		case <-k.quit:
			return
		case <-k.idle:
			return
		case d := <-k.tasks:
			if !k.task(&s, d) {
				return
			}
		}
	}
}

// task is what a worker does with one directory. It reports whether to go on.
func (k *crew) task(s *strand, d *walkDir) bool {
	back := false
	defer func() {
		if !back {
			k.exited <- struct{}{}
		}
	}()
	goOn := k.walk(s, d)
	back = true
	if goOn && k.open.Add(-1) == 0 {
		close(k.idle)
		return false
	}
	return goOn
}

// walk walks what a strand does not give away, and reports whether to go on.
func (k *crew) walk(s *strand, d *walkDir) bool {
	s.start(d)
	defer s.unwind()
	b := k.fresh()
	defer func() {
		if b != nil { // it was not handed over
			b.release()
		}
	}()
	for {
		e, err, more := s.next()
		if more {
			k.add(b, e, err)
		}
		if more && len(b.found) < batchEntries && len(b.dirs) < batchDirs {
			continue
		}
		select {
		case k.batches <- b:
			b = nil
		case <-k.quit:
			return false
		}
		if !more {
			return true
		}
		b = k.fresh()
	}
}

func (k *crew) fresh() *batch {
	select {
	case b := <-k.free:
		return b
	default:
		return &batch{}
	}
}

func (k *crew) add(b *batch, e Entry, err error) {
	b.found = append(b.found, found{e, err})
	if n := len(b.dirs); n == 0 || b.dirs[n-1] != e.dir {
		e.dir.users.Add(1)
		b.dirs = append(b.dirs, e.dir)
	}
}
