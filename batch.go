package caproot

import (
	"context"
	"io"
	"io/fs"
	"sync"

	"github.com/caproot/caproot/identity"
)

// Barrier says how a batch brings its files to stable storage before the first
// of them gets its name.
type Barrier uint8

const (
	// BarrierAuto is BarrierFileSystem from 32 files on, else BarrierFiles.
	BarrierAuto Barrier = iota
	// BarrierFiles flushes each file, at most 16 at a time.
	BarrierFiles
	// BarrierFileSystem flushes the whole file system, other programs' files too
	// (syncfs). Where that is missing, does not tell errors (before Linux 5.8) or
	// does not reach stable storage (FUSE, network and FAT file systems) each file
	// is flushed.
	BarrierFileSystem
)

const (
	autoBarrier = 32 // files from which one flush of everything is less work
	maxFlushes  = 16 // at a time; a disk's queue is not much deeper
)

var verbBatch = verb{name: "batch"}

// Batch is many publications with one flush before the first and one for each
// directory after the last. Every file is whole or as it was, at any time; the
// batch is not atomic: a reader, or a crash, can find some files published.
//
// It is safe for concurrent use. Until Commit or Abort each file holds two
// descriptors. A Batch does not keep its Root open.
type Batch struct {
	r *Root
	o BatchOptions

	mu     sync.Mutex
	staged []*Staged
	done   bool
}

// BatchReport tells what became of each file of a batch, in its order.
type BatchReport struct {
	// Published has a receipt of each file that has its name. Its Durability is
	// what was achieved, also when the flush of a directory failed.
	Published []identity.Receipt
	// Failed has the file whose publication ended the batch.
	Failed []BatchFailure
	// NotTried has the names of the files that were not to be published any more.
	NotTried []string
}

// BatchFailure is a file that was not published.
type BatchFailure struct {
	Name string // as given to the batch
	Err  error
}

// BatchOptions are the options of Batch.
type BatchOptions struct {
	Barrier Barrier
}

// Batch begins a batch. Options out of their range are ErrOption from its Put,
// PutFrom and Commit.
func (r *Root) Batch(o BatchOptions) *Batch { return &Batch{r: r, o: o} }

// Put adds a file with the content data and the options of Root.Put. An error
// adds nothing and leaves the batch as it was.
func (b *Batch) Put(name string, data []byte, o PutOptions) error {
	return b.add(name, o, nil, func(s *Staged) error { _, err := s.Write(data); return err })
}

// PutFrom adds a file with the content of src until io.EOF, as Root.PutFrom does.
func (b *Batch) PutFrom(ctx context.Context, name string, src io.Reader, o PutOptions) error {
	return b.add(name, o, admitSource(ctx, src), func(s *Staged) error { return s.fill(ctx, src) })
}

// add stages what fill writes, unless the source is refused before.
func (b *Batch) add(name string, o PutOptions, refused error, fill func(*Staged) error) error {
	if b == nil {
		return &fs.PathError{Op: verbPut.name, Path: name, Err: errNoRoot}
	}
	if err := b.o.valid(); err != nil {
		return b.r.refuse(&verbPut, name, err)
	}
	if refused != nil && b.r.opened() {
		return b.r.refuse(&verbPut, name, refused)
	}
	s, err := b.r.Stage(name, o)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			s.Abort() // the source may have panicked, too
		}
	}()
	if err := fill(s); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return s.c.fail(fs.ErrClosed)
	}
	b.staged, kept = append(b.staged, s), true
	return nil
}

// Abort gives up what was not published. After Commit it does nothing.
func (b *Batch) Abort() error {
	if b == nil || !b.r.opened() {
		return &fs.PathError{Op: "batch", Path: ".", Err: errNoRoot}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drop()
}

// drop gives up what was not published.
func (b *Batch) drop() (first error) {
	b.done = true
	for _, s := range b.staged {
		if err := s.Abort(); first == nil {
			first = err
		}
	}
	b.staged = nil
	return first
}

// Commit flushes all files, publishes them in the order they were added, and
// flushes each directory once. It ends at the first file that cannot be
// published, and at the end of ctx between two; the report says how far it
// came. Called again it returns fs.ErrClosed.
func (b *Batch) Commit(ctx context.Context) (BatchReport, error) {
	switch {
	case b == nil || !b.r.opened():
		return BatchReport{}, &fs.PathError{Op: "batch", Path: ".", Err: errNoRoot}
	}
	if err := admitContext(ctx, b.o.valid()); err != nil {
		return BatchReport{}, b.r.refuse(&verbBatch, ".", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return BatchReport{}, b.r.refuse(&verbBatch, ".", fs.ErrClosed)
	}
	defer b.drop()
	k := batchCommit{b: b}
	err := k.run(ctx)
	return k.report, err
}

// batchCommit is a Commit at work.
type batchCommit struct {
	b      *Batch
	told   []telling // of those published
	report BatchReport
}

func (k *batchCommit) run(ctx context.Context) error {
	if err := k.b.r.enter(); err != nil {
		k.skip(-1)
		return k.b.r.refuse(&verbBatch, ".", err)
	}
	defer k.b.r.leave()
	for _, s := range k.b.staged {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	err := k.each(ctx, (*Staged).ready)
	if err == nil {
		if err = k.flush(); err != nil {
			k.skip(-1)
		}
	}
	if err == nil {
		err = k.each(ctx, k.give)
	}
	if terr := k.tell(); err == nil {
		err = terr
	}
	return err
}

// each does something to every file, and ends at the first failure.
func (k *batchCommit) each(ctx context.Context, do func(*Staged) error) error {
	for i, s := range k.b.staged {
		if err := endOf(ctx); err != nil {
			k.skip(-1)
			return k.b.r.refuse(&verbBatch, ".", err)
		}
		if err := do(s); err != nil {
			err = s.c.fail(err)
			k.report.Failed = []BatchFailure{{s.c.name, err}}
			k.skip(i)
			return err
		}
	}
	return nil
}

// skip reports the files that have no name yet, but for the one that failed.
func (k *batchCommit) skip(failed int) {
	for i, s := range k.b.staged {
		if i >= len(k.told) && i != failed {
			k.report.NotTried = append(k.report.NotTried, s.c.name)
		}
	}
}

// ready gives the file its mode and owner. Nothing is flushed yet.
func (s *Staged) ready() error {
	if err := s.review(); err != nil {
		return err
	}
	asked := s.p.o.Durability
	s.p.o.Durability = max(asked, DurabilityNone)
	err := s.p.complete()
	s.p.o.Durability = asked
	return err
}

func (k *batchCommit) give(s *Staged) error {
	t, err := s.p.give()
	if err == nil {
		k.told = append(k.told, t)
	}
	return err
}

// flush is the barrier.
func (k *batchCommit) flush() error {
	var files []*Staged
	for _, s := range k.b.staged {
		if s.p.o.Durability <= DurabilityFile {
			files = append(files, s)
		}
	}
	barrier := k.b.o.Barrier
	if barrier == BarrierFileSystem || barrier == BarrierAuto && len(files) >= autoBarrier {
		if system, ok := unfenced(k.b.r.sys).(fsSyncer); ok {
			var err error
			if files, err = flushSystems(system, files); err != nil {
				return err
			}
		}
	}
	return flushFiles(files)
}

// flushSystems flushes the file systems of files. It returns the files for which
// that says nothing: of a file system where the call flushes nothing, or a kernel
// before Linux 5.8, of which it is not known whether their writes failed: that
// is as old as the mount id in the answer of statx.
func flushSystems(system fsSyncer, files []*Staged) (left []*Staged, err error) {
	flushed := map[uint64]bool{}
	for _, s := range files {
		st, err := s.c.r.sys.stat(s.p.file, "", true)
		if err != nil {
			return nil, s.c.fail(err)
		}
		switch {
		case st.mount == 0:
			left = append(left, s)
		case !flushed[st.dev]:
			err := system.syncFS(s.p.file)
			switch {
			case err == nil:
				flushed[st.dev] = true
			case notHere(err):
				left = append(left, s)
			default:
				return nil, s.c.fail(err)
			}
		}
	}
	return left, nil
}

// flushFiles flushes each file, some at a time, and returns the first error in
// their order.
func flushFiles(files []*Staged) error {
	var (
		flushing sync.WaitGroup
		errs     = make([]error, len(files))
		slots    = make(chan struct{}, maxFlushes)
	)
	for i, s := range files {
		slots <- struct{}{}
		flushing.Go(func() {
			errs[i] = s.c.syncFile(s.p.file, s.p.o.Durability, &s.p.lost)
			<-slots
		})
	}
	flushing.Wait()
	for i, err := range errs {
		if err != nil {
			return files[i].c.fail(err)
		}
	}
	return nil
}

// tell flushes the directories of the files published and writes the receipts.
func (k *batchCommit) tell() (first error) {
	flushed := map[[2]uint64]dirFlush{}
	for i := range k.told {
		s, t := k.b.staged[i], &k.told[i]
		err := s.flushDir(t, flushed)
		receipt, err := s.p.tell(t, err)
		k.report.Published = append(k.report.Published, receipt)
		s.c.note(err)
		s.c.report()
		if err = s.c.fail(err); first == nil {
			first = err
		}
	}
	return first
}

// dirFlush is what the flush of a directory came to.
type dirFlush struct {
	achieved Durability
	lost     []string
	err      error
}

// flushDir flushes the file's directory unless that was done already.
func (s *Staged) flushDir(t *telling, flushed map[[2]uint64]dirFlush) error {
	if t.asked != DurabilityDir {
		t.achieved = t.asked
		return nil
	}
	st, err := s.c.r.sys.stat(s.c.dir, "", false)
	if err != nil {
		t.achieved = DurabilityFile
		return published(err)
	}
	f, done := flushed[[2]uint64{st.dev, st.ino}]
	if !done {
		f.achieved, f.err = s.c.syncDir(s.c.dir, t.asked, &f.lost)
		flushed[[2]uint64{st.dev, st.ino}] = f
	}
	t.achieved = f.achieved
	s.p.lost = append(s.p.lost, f.lost...)
	return f.err
}
