package caproot

import (
	"errors"
	"hash"
	"io/fs"
	"syscall"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

// publication is new content on its way to a name. It lives on the stack of
// Put, or in a Staged.
type publication struct {
	c    *call
	o    PutOptions
	mode fs.FileMode // exact; valid when exact
	keep bool        // the mode of what is replaced, if anything

	file   handle
	temp   string // name of the stage; "" while the file has none
	seal   string // of what a swap is to displace, when that is locked
	size   int64
	paid   int64 // bytes of the content that are reserved already
	sum    hash.Hash
	lost   []string
	shared bool  // the file was handed out, and holds what others wrote
	broken error // of a write: the content is not complete any more
	late   error // of the call that gave the file its name all the same

	exists bool
	old    status      // of what the target names now
	like   *status     // whose owner and mode the file gets; nil: as the options say
	alike  bool        // it gets the access list of the source, or the owner's bits alone
	source *copySource // of a copy
}

// open checks the target and makes an empty stage beside it, for content of
// size bytes at least.
func (p *publication) open(size int) (err error) {
	c := p.c
	p.file = noHandle
	if err := p.o.valid(); err != nil {
		return err
	}
	if err := p.admitRights(); err != nil {
		return err
	}
	if int64(size) > p.limit() {
		return ErrTooLarge
	}
	if p.o.IfMatch != nil {
		// The caller may change it before Commit.
		expected := *p.o.IfMatch
		p.o.IfMatch = &expected
	}
	if p.mode, err = c.exactMode(p.o.Mode); err != nil {
		return err
	}
	if p.keep = p.o.Mode == 0; p.keep {
		p.mode = 0o600 & c.r.policy.Modes
	}
	// Before a parent is made for it. What a link leads to is seen by permit.
	if err := c.admitFileName(); err != nil {
		return err
	}
	p.o.Durability = c.durability(p.o.Durability)
	files, err := p.toPlace(int64(size))
	if err != nil {
		return err
	}
	if err := p.look(); err != nil {
		return err
	}
	if p.o.Digest {
		p.sum = newSum()
	}
	if err := c.permit(StepStage, files); err != nil {
		return err
	}
	return p.stage()
}

// look sees what the target names and whether it may be given over.
func (p *publication) look() error {
	c := p.c
	st, err := c.r.sys.stat(c.dir, c.leaf, false)
	p.exists = err == nil
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return p.admitNew()
	}
	p.old = st
	if err = st.replaceable(); err != nil && !(c.verb.leaf && st.isLink()) {
		return err
	}
	switch {
	case p.o.NoReplace:
		return syscall.EEXIST
	case c.r.policy.Rights&Replace == 0:
		return because(ErrPolicy, "file exists, needs Replace")
	case st.nlink > 1 && c.r.policy.Hardlinks == HardlinksRefuse:
		return ErrHardlink
	}
	return nil
}

func (p *publication) admitNew() error {
	switch {
	case p.o.IfMatch != nil:
		return because(ErrChanged, "the expected file is gone")
	case p.c.r.policy.Rights&Create == 0:
		return because(ErrPolicy, "file does not exist, needs Create")
	}
	return nil
}

// stage makes the file that will get the target's name: without a name where
// the file system can, so that a crash leaves nothing.
func (p *publication) stage() (err error) {
	c := p.c
	if p.file, err = c.r.sys.unnamed(c.dir, stageMode(p.mode)); err == nil {
		return p.witness()
	}
	if !notHere(err) {
		return err
	}
	p.lose("unnamed-file")
	for range maxRaces {
		name := newStageName()
		p.file, err = c.r.sys.open(c.dir, name, forRead|forWrite|creating|exclusive, stageMode(p.mode))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		p.temp = name
		if err = p.witness(); err != nil {
			return errors.Join(err, p.discard())
		}
		// A sweep may have taken the stage for a dead one before it was locked. Where
		// file numbers do not last every stage looks replaced: one is enough.
		if err = p.checkTemp(); err != errStageGone || !p.nameless() {
			return err
		}
		c.r.sys.close(p.file)
		p.temp, p.file = "", noHandle
	}
	return ErrUnstable
}

// witness locks the stage for as long as this process lives and has it open:
// by that a sweep tells a live stage from a dead one.
func (p *publication) witness() error {
	err := p.c.r.sys.lock(p.file)
	if err != nil && noLock(err) {
		p.lose("stage-lock")
		return nil
	}
	return err
}

// noLock is true when the file system has no locks, or on NFS none for a file
// that is open for reading only.
func noLock(err error) bool {
	return notHere(err) || err == syscall.ENOLCK || err == syscall.EBADF
}

// lose notes what a fallback could not give, each once.
func (p *publication) lose(code string) {
	note(&p.lost, code)
}

// write adds to the content. After a failure it is not whole, whatever follows.
func (p *publication) write(data []byte) (n int, err error) {
	if p.broken != nil {
		return 0, p.broken
	}
	if int64(len(data)) > p.limit()-p.size {
		p.broken = ErrTooLarge
		return 0, p.broken
	}
	paid := min(p.paid, int64(len(data)))
	p.paid -= paid
	if p.broken = p.c.spend(Budget{Bytes: int64(len(data)) - paid}); p.broken != nil {
		return 0, p.broken
	}
	n, p.broken = writeAll(p.c.r.sys, p.file, data)
	p.size += int64(n)
	if p.sum != nil {
		p.sum.Write(data[:n])
	}
	return n, p.broken
}

func (p *publication) limit() int64 {
	limit := p.c.r.policy.MaxWriteBytes
	if p.o.MaxBytes != 0 {
		limit = min(limit, p.o.MaxBytes)
	}
	return limit
}

// publish gives the complete file the target's name. An error comes with a
// receipt when the file has its name all the same.
func (p *publication) publish() (receipt identity.Receipt, err error) {
	if err = p.complete(); err != nil {
		return receipt, err
	}
	t, err := p.give()
	if err != nil {
		return receipt, err
	}
	t.achieved, err = p.c.syncDir(p.c.dir, t.asked, &p.lost)
	return p.tell(&t, err)
}

// complete makes the file all that it will be under its name.
func (p *publication) complete() error {
	if p.shared {
		if err := p.measure(); err != nil {
			return err
		}
	}
	return p.finish()
}

// give attaches the file and tells how.
func (p *publication) give() (telling, error) {
	published, err := p.attach()
	if err == nil {
		p.c.keep()
	}
	return telling{op: p.c.verb.name, object: p.file, published: published, asked: p.o.Durability, ancestry: p.o.Ancestry}, err
}

// tell writes the receipt after the flush of the directory, which ended in err.
func (p *publication) tell(t *telling, err error) (identity.Receipt, error) {
	if p.sum != nil {
		t.digest = hexSum(p.sum)
	}
	t.lost = p.lost
	receipt, terr := p.c.tell(t)
	for _, late := range []error{terr, p.late} {
		if err == nil && late != nil {
			err = published(late)
		}
	}
	return receipt, err
}

// measure holds a file that others wrote to against the limit, and takes its
// digest from what it holds.
func (p *publication) measure() error {
	if p.sum != nil {
		p.sum.Reset()
	}
	p.size = 0
	buf := make([]byte, copyBytes)
	for {
		n, err := p.c.r.sys.readAt(p.file, buf, p.size)
		if n == 0 || err != nil {
			return err
		}
		if p.size += int64(n); p.size > p.limit() {
			return ErrTooLarge
		}
		if p.sum != nil {
			p.sum.Write(buf[:n])
		}
	}
}

// copyBytes is the size of a buffer that content passes through.
const copyBytes = 128 << 10

// discard takes a stage away that did not become the target.
func (p *publication) discard() error {
	if p.file == noHandle {
		p.c.refund()
		return nil
	}
	var err error
	if p.temp != "" {
		if err = p.checkTemp(); err == nil {
			err = unfenced(p.c.r.sys).remove(p.c.dir, p.temp, false)
		}
		if err == errStageGone || errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		p.temp = ""
	}
	p.settleSpent()
	if cerr := p.c.r.sys.close(p.file); err == nil {
		err = cerr
	}
	p.file = noHandle
	return err
}

// end lets the stage go after err, which is nil when the file has its name,
// and reports both failures, err first. Some file systems tell only at the
// close that content did not arrive.
func (p *publication) end(err error) error {
	derr := p.discard()
	switch {
	case derr == nil:
		return err
	case err == nil:
		return published(derr)
	}
	return multierror.Append(err, derr)
}

// errStageGone is a change, not an absence: the target may well be there.
var errStageGone = because(ErrChanged, "the stage was taken away")

// checkTemp compares what the stage's name names with the open file.
func (p *publication) checkTemp() error {
	if p.temp == "" {
		return errStageGone
	}
	mine, err := p.c.r.sys.stat(p.file, "", false)
	if err != nil {
		return err
	}
	named, err := p.c.r.sys.stat(p.c.dir, p.temp, false)
	if errors.Is(err, fs.ErrNotExist) {
		return errStageGone
	}
	if err != nil {
		return err
	}
	if !named.sameNumbers(&mine) || named.nlink != 1 {
		return because(ErrChanged, "the stage was replaced")
	}
	return nil
}
