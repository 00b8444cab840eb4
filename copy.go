package caproot

import (
	"context"
	"os"
	"syscall"

	"github.com/caproot/caproot/identity"
)

var (
	verbCopyIn = verb{name: "copyin", changes: true, traced: true, makes: true}
	verbMoveIn = verb{name: "copyin", changes: true, traced: true, makes: true, leaf: true} // as rename(2)
)

// Source is a file to copy from: what Name leads to in Root, under the rules of
// that root, or else File from its beginning. File stays the caller's, and its
// offset where it is.
type Source struct {
	Root *Root
	Name string
	File *os.File
}

// CloneRule says whether a copy may share storage with its source.
type CloneRule uint8

const (
	CloneAuto    CloneRule = iota // where the file system can (reflink)
	CloneNever                    // the copy has storage of its own
	CloneRequire                  // ErrUnsupported where it cannot
)

// CopyOptions are the options of CopyIn. Those of Put hold as they do there.
type CopyOptions struct {
	PutOptions
	// KeepMode takes the permission bits of the source, cut by Policy.Modes, when
	// Mode is zero, and the access list; where that cannot be taken, Receipt.Lost
	// has "access-list" and the mode is the owner's alone. A directory gets no list
	// (CopyTree), and of one that has a list only the owner's bits. Setuid, setgid
	// and sticky are never taken.
	KeepMode bool
	// KeepTimes takes the times of access and modification.
	KeepTimes bool
	Clone     CloneRule
	// Progress is told the bytes copied so far and the size of the source, from
	// time to time and at the end, by the goroutine that called. It must not call
	// Close or Wait on either Root: the copy that they wait for waits for it.
	Progress func(done, total int64)
	// moving takes all that the policy lets a file have: owner, mode and times.
	moving bool
	// source is the grant of the source, asked before each chunk and the publication.
	source *tenure
}

// CopyIn publishes a copy of the source under name: complete, or not at all.
// The kernel copies where it can (FICLONE, copy_file_range on Linux).
//
// It returns ErrChanged when the source grew, shrank or was written while it was
// copied, as far as its times tell, or when its name leads to another file by the end; ErrSpecial and
// EISDIR for what is no regular file; ErrTooLarge beyond a limit of either root.
// A revocation of either is asked for with each chunk and before the publication.
// The source's Root has a call in flight until the copy ends.
func (r *Root) CopyIn(ctx context.Context, name string, src Source, o CopyOptions) (identity.Receipt, error) {
	if err := admitRunning(ctx, o.valid()); err != nil {
		return identity.Receipt{}, r.refuse(&verbCopyIn, name, err)
	}
	from, err := src.open()
	if err != nil {
		refused := r.refuse(&verbCopyIn, name, cause(err))
		if src.Root == nil {
			err = refused // the file has no name below a root
		}
		return identity.Receipt{}, err
	}
	defer from.Close()
	if src.Root != nil {
		o.source = src.Root.tenure
	}
	return r.copyFile(ctx, name, from, o)
}

func (r *Root) copyFile(ctx context.Context, name string, from *copySource, o CopyOptions) (identity.Receipt, error) {
	v := &verbCopyIn
	if o.moving {
		v = &verbMoveIn
	}
	s, err := r.stage(v, name, o.PutOptions)
	if err != nil {
		return identity.Receipt{}, err
	}
	defer s.Abort()
	s.p.source, from.grant = from, o.source
	if err := s.take(&fileCopy{ctx: ctx, from: from, p: &s.p, o: &o}); err != nil {
		return identity.Receipt{}, s.c.fail(err)
	}
	return s.Commit()
}

// take fills the stage. The caller's Progress may panic in between.
func (s *Staged) take(t *fileCopy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.c.r.leave()
	return t.run()
}

// fileCopy is the content of one file on its way into a stage.
type fileCopy struct {
	ctx  context.Context
	from *copySource
	p    *publication
	o    *CopyOptions
	done int64
}

func (t *fileCopy) run() error {
	if err := t.holds(); err != nil {
		return err
	}
	if t.from.st.size > t.p.limit() {
		return ErrTooLarge
	}
	err := t.offload()
	if err == nil {
		err = t.from.unchanged()
	}
	if err != nil {
		return err
	}
	if t.o.moving {
		t.p.like, t.p.alike = &t.from.st, true
	} else if t.o.KeepMode && t.o.Mode == 0 {
		t.p.mode, t.p.keep, t.p.alike = t.from.st.mode.Perm()&t.p.c.r.policy.Modes, false, true
	}
	if t.o.KeepTimes {
		return t.p.c.r.sys.chtimes(t.p.file, t.from.st.atime.time(), t.from.st.mtime.time())
	}
	return nil
}

// offload lets the kernel copy as much as it can, and copies the rest.
func (t *fileCopy) offload() error {
	k, ok := unfenced(t.p.c.r.sys).(rangeCopier)
	if ok && t.o.Clone != CloneNever {
		whole := Budget{Bytes: t.from.st.size}
		if err := t.p.c.spend(whole); err != nil {
			return err
		}
		if k.clone(t.p.file, t.from.h) == nil {
			return t.cloned()
		}
		t.p.c.unspend(whole)
	}
	if t.o.Clone == CloneRequire {
		return because(ErrUnsupported, "the two files cannot share storage")
	}
	if ok && t.p.sum == nil {
		if err := t.ranges(k); err != nil {
			return err
		}
	}
	return t.bytes()
}

// cloned counts what a clone brought.
func (t *fileCopy) cloned() error {
	if t.p.sum != nil {
		if err := t.p.measure(); err != nil {
			return err
		}
		return t.tick(t.p.size)
	}
	st, err := t.p.c.r.sys.stat(t.p.file, "", false)
	if err == nil && st.size > t.p.limit() {
		err = ErrTooLarge
	}
	if err != nil {
		return err
	}
	t.p.size = st.size
	return t.tick(st.size)
}

// rangeBytes is how much the kernel copies at once: between two chunks the copy
// can be canceled.
const rangeBytes = 16 << 20

// ranges copies inside the kernel until that is refused or answers nothing,
// which need not be the end: FUSE and procfs give 0 for what can be read.
func (t *fileCopy) ranges(k rangeCopier) error {
	for {
		// What the source has beyond its size, or without telling a size, is read
		// and written, when it has been paid for.
		n, err := t.oneRange(k, int(min(rangeBytes, t.from.st.size-t.done)))
		if err != nil && !noOffload(err) {
			return err
		}
		if n == 0 || err != nil {
			t.p.size = t.done
			_, err := t.p.c.r.sys.seek(t.p.file, t.done, 0)
			return err
		}
		if t.done+int64(n) > t.p.limit() {
			return ErrTooLarge
		}
		if err := t.tick(int64(n)); err != nil {
			return err
		}
	}
}

func (t *fileCopy) oneRange(k rangeCopier, want int) (n int, err error) {
	if want <= 0 {
		return 0, nil
	}
	if err := t.p.c.spend(Budget{Bytes: int64(want)}); err != nil {
		return 0, err
	}
	n, err = k.copyRange(t.p.file, t.from.h, t.done, want)
	t.p.c.unspend(Budget{Bytes: int64(want - n)})
	return n, err
}

// noOffload is true when two files cannot be copied inside the kernel.
func noOffload(err error) bool {
	return notHere(err) || err == syscall.EXDEV || err == syscall.EPERM || err == syscall.EBADF
}

// bytes copies from where the kernel left off to the end.
func (t *fileCopy) bytes() error {
	buf := make([]byte, copyBytes)
	for {
		n, err := t.from.sys.readAt(t.from.h, buf, t.done)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if t.done+int64(n) > t.from.limit {
			return ErrTooLarge
		}
		if err := t.from.share.grow(t.done + int64(n)); err != nil {
			return err
		}
		if _, err := t.p.write(buf[:n]); err != nil {
			return err
		}
		if err := t.tick(int64(n)); err != nil {
			return err
		}
	}
}

// tick counts n bytes, tells of them, and ends a copy that was canceled.
func (t *fileCopy) tick(n int64) error {
	t.done += n
	// The size of a file in procfs is 0, whatever it holds.
	if size := t.from.st.size; size > 0 && t.done > size {
		return because(ErrChanged, "the source grew while it was copied")
	}
	if t.o.Progress != nil {
		t.o.Progress(t.done, t.from.st.size)
	}
	if err := endOf(t.ctx); err != nil {
		return err
	}
	return t.holds()
}

// holds asks both grants.
func (t *fileCopy) holds() error {
	if err := t.p.c.r.tenure.holds(); err != nil {
		return err
	}
	return t.from.grant.holds()
}
