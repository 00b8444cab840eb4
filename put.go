package caproot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/caproot/caproot/identity"
)

var verbPut = verb{name: "put", changes: true, traced: true, makes: true}

// PutOptions are the options of Put, PutFrom and Stage.
type PutOptions struct {
	// Mode is the exact mode of the file, whatever the umask. Zero keeps the mode
	// of the file that is replaced, as far as Policy.Modes has it, else 0600.
	// Owner and group are kept where the system permits; where it does not,
	// Receipt.Lost has "owner", and a mode that is kept goes without setuid and
	// setgid, and for another group without what others may not do either. With a
	// mode that is kept goes the access list; where that cannot be, Lost has
	// "access-list" and the mode is the owner's alone.
	Mode fs.FileMode
	// NoReplace makes an existing name an error that matches fs.ErrExist.
	NoReplace bool
	// IfMatch replaces only the object of this receipt, else the error matches
	// ErrChanged. A file that was written in place is the same object: a digest in
	// the receipt is compared too, and needs the right Read. Where the system can exchange two names the comparison is made on what
	// was displaced, and Receipt.Published is Swapped; another process can see the
	// new content for that moment even if it is taken back. If a third writer
	// comes between, the error tells the name under which a file of another writer
	// was kept. Elsewhere it is Checked: a change between comparison and
	// replacement goes unnoticed.
	//
	// Of the calls with IfMatch that expect one object only one succeeds, in all
	// processes: they lock it (flock on Unix). ErrUnstable is returned when
	// something else holds that lock, and Receipt.Lost has "swap-lock" where the
	// file cannot be locked. Calls without IfMatch do not ask.
	IfMatch *identity.Receipt
	// Durability is what to wait for; the policy's is the least.
	Durability Durability
	// Digest puts the SHA-256 into the receipt, Ancestry the identities of all
	// directories above the file.
	Digest   bool
	Ancestry bool
	// Parents makes missing directories, with the exact mode ParentMode or 0700.
	// It needs the right Mkdir. They stay if the publication fails later; a name that
	// is too long, and for Put a budget that is too small, are refused before.
	Parents    bool
	ParentMode fs.FileMode
	// MaxBytes limits the size further than the policy does; zero does not.
	MaxBytes int64
}

// Put publishes data under name: complete, or not at all. A process killed at
// any point leaves the old file or the new one. On Linux a new file leaves
// nothing else behind; a replacement may leave a stage, see Sweep.
//
// It needs the right Create for a new file and Replace for one that is there;
// with one of them the error tells which it would have been, with neither nothing.
//
// It returns ErrSymlink when name is a link that the policy does not follow,
// ErrSpecial for a FIFO, socket or device, ErrTooLarge beyond a limit.
//
// With an error nothing was published, unless the receipt says otherwise: its
// Published is not Unpublished when the content has its name and something
// failed after that, as the flush of the directory. A file that was displaced
// by exchange and could not be removed is no error: it stays under the name of
// a stage, and Receipt.Lost has "cleanup". A file system that loses its reply to
// the call that gives the name is noticed by a second look; if that fails too, the
// error does not say whether the content was published.
func (r *Root) Put(name string, data []byte, o PutOptions) (identity.Receipt, error) {
	var c call
	if err := c.begin(r, &verbPut, name); err != nil {
		return identity.Receipt{}, err
	}
	defer c.end()
	p := publication{c: &c, o: o, file: noHandle}
	defer p.discard() // what a panic of the host's callback left
	receipt, err := p.put(data)
	return receipt, c.fail(p.end(err))
}

func (p *publication) put(data []byte) (identity.Receipt, error) {
	err := p.open(len(data))
	if err == nil {
		_, err = p.write(data)
	}
	if err != nil {
		return identity.Receipt{}, err
	}
	return p.publish()
}

// admitRights refuses what no target could be given: an answer that depends on the
// target would tell of it.
func (p *publication) admitRights() error {
	rights, why := Create|Replace, "needs Create or Replace"
	switch {
	case p.o.IfMatch != nil:
		rights, why = Replace, "needs Replace"
	case p.o.NoReplace:
		rights, why = Create, "needs Create"
	}
	if p.c.r.policy.Rights&rights == 0 {
		return because(ErrPolicy, why)
	}
	return nil
}

// PutFrom is Put for content that is read from src until io.EOF. An error of
// src, or the end of ctx before the publication, publishes nothing; the error
// then matches that of src, or ctx.Err() and the cause. When ctx has ended before
// the call nothing is touched; when it ends later, parents that were made stay.
func (r *Root) PutFrom(ctx context.Context, name string, src io.Reader, o PutOptions) (identity.Receipt, error) {
	if err := admitSource(ctx, src); err != nil && r.opened() {
		return identity.Receipt{}, r.refuse(&verbPut, name, err)
	}
	s, err := r.Stage(name, o)
	if err != nil {
		return identity.Receipt{}, err
	}
	defer s.Abort()
	if err := s.fill(ctx, src); err != nil {
		return identity.Receipt{}, err
	}
	return s.Commit()
}

// maxEmptyReads is how often in a row a reader may give nothing, as in bufio.
const maxEmptyReads = 100

// admitSource decides before anything is made for the content of src.
func admitSource(ctx context.Context, src io.Reader) error {
	switch {
	case ctx == nil:
		return errNoContext
	case src == nil:
		return errNoSource
	}
	return endOf(ctx)
}

// fill reads src to its end.
func (s *Staged) fill(ctx context.Context, src io.Reader) error {
	buf := make([]byte, copyBytes)
	for empty, end := 0, false; ; {
		if err := endOf(ctx); err != nil {
			return s.c.fail(err)
		}
		if end {
			return nil
		}
		n, err := src.Read(buf)
		if _, werr := s.Write(buf[:n]); werr != nil {
			return werr
		}
		if empty++; n > 0 {
			empty = 0
		}
		switch end = err == io.EOF; {
		case err != nil && !end:
			return s.c.fail(err)
		case empty == maxEmptyReads && !end:
			return s.c.fail(io.ErrNoProgress)
		}
	}
}

// endOf is the error of a context that has ended, with its cause.
func endOf(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &detail{err, cause.Error(), cause}
}

// Staged is content on its way to a name. It is safe for concurrent use.
type Staged struct {
	mu      sync.Mutex
	c       call
	p       publication
	done    bool
	receipt identity.Receipt
	err     error
}

// Stage begins a publication. Write the content, then Commit; Abort or Close
// without Commit leaves no trace. A Staged holds two descriptors until then. It
// does not keep its Root open: after Root.Close its methods return fs.ErrClosed,
// and Abort still cleans up. What the target names is looked at again by Commit.
func (r *Root) Stage(name string, o PutOptions) (*Staged, error) { return r.stage(&verbPut, name, o) }

func (r *Root) stage(v *verb, name string, o PutOptions) (*Staged, error) {
	s := &Staged{}
	if err := s.c.begin(r, v, name); err != nil {
		return nil, err
	}
	defer r.leave()
	s.p = publication{c: &s.c, o: o, file: noHandle}
	kept := false
	defer func() {
		if !kept {
			s.giveUp() // a callback of the host may have panicked
		}
	}()
	err := s.p.open(0)
	if err == nil && !s.c.owned {
		// The stage outlives the call, so it needs a handle of its own.
		if s.c.dir, err = r.sys.dup(s.c.dir); err == nil {
			s.c.owned = true
		}
	}
	if err != nil {
		err = s.c.fail(s.p.end(err))
		s.c.leavePlace()
		s.c.report()
		return nil, err
	}
	kept = true
	return s, nil
}

// Write adds to the content. After a failed Write the content is not whole, and
// Write and Commit return that error.
func (s *Staged) Write(data []byte) (int, error) {
	if !s.begun() {
		return 0, s.refuse("write")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(); err != nil {
		return 0, s.deny("write", err)
	}
	defer s.c.r.leave()
	n, err := s.p.write(data)
	return n, s.c.fail(err)
}

// begun tells a Staged that a Root made.
func (s *Staged) begun() bool { return s != nil && s.c.r != nil }

func (s *Staged) refuse(op string) error { return &fs.PathError{Op: op, Err: errNoStage} }

func (s *Staged) enter() error {
	if s.done {
		return fs.ErrClosed
	}
	return s.c.r.enter()
}

// deny is the answer of a call that leaves the publication as it was.
func (s *Staged) deny(op string, err error) error {
	if s.c.r.tenure.told {
		s.c.r.report(op, s.c.name, "", err)
	}
	return &fs.PathError{Op: s.c.verb.name, Path: s.c.name, Err: err}
}

// File returns a further descriptor of the file that will be published. It
// shares the file's offset and its lock, and stays open after Commit. What is
// written to it counts for limits and digest when Commit begins, and nothing of
// it is held back after that. It needs the right Share.
func (s *Staged) File() (*os.File, error) {
	if !s.begun() {
		return nil, s.refuse("file")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(); err != nil {
		return nil, s.deny("file", err)
	}
	defer s.c.r.leave()
	if s.c.r.policy.Rights&Share == 0 {
		return nil, s.deny("file", because(ErrPolicy, "needs Share"))
	}
	err := s.c.admitDescriptor()
	if err == nil {
		if err = s.p.share(); err != nil {
			s.p.broken = err
		}
	}
	if err != nil {
		return nil, s.deny("file", err)
	}
	h, err := s.c.r.sys.dup(s.p.file)
	if err != nil {
		return nil, s.deny("file", err)
	}
	return newFile(h, s.c.name), nil
}

// Commit publishes the content. Called again it returns the same result.
func (s *Staged) Commit() (identity.Receipt, error) {
	if !s.begun() {
		return identity.Receipt{}, s.refuse("commit")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.receipt, s.err
	}
	if err := s.c.r.enter(); err != nil {
		s.end(err)
		return s.receipt, s.err
	}
	defer s.c.r.leave()
	defer s.giveUp() // does nothing unless a callback of the host panics
	receipt, err := s.commit()
	s.receipt = receipt
	s.end(err)
	return s.receipt, s.err
}

// commit publishes under what holds now: mode and owner to keep are those of
// the file that the target names by now. NoReplace leaves that to the kernel.
func (s *Staged) commit() (receipt identity.Receipt, err error) {
	if err = s.review(); err != nil {
		return receipt, err
	}
	return s.p.publish()
}

func (s *Staged) review() error {
	if s.p.broken != nil {
		return s.p.broken
	}
	if err := s.c.bound(); err != nil || s.p.o.NoReplace {
		return err
	}
	return s.p.look()
}

func (s *Staged) end(err error) {
	err = s.p.end(err)
	s.c.note(err)
	s.done, s.err = true, s.c.fail(err)
	s.c.leavePlace()
	s.c.report()
}

// errAborted is what Commit returns after Abort.
var errAborted = because(fs.ErrClosed, "stage was aborted")

// Abort gives the publication up. After Commit, or called again, it does nothing.
func (s *Staged) Abort() error {
	if !s.begun() {
		return s.refuse("abort")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.giveUp()
}

func (s *Staged) giveUp() error {
	if s.done {
		return nil
	}
	err := s.p.discard()
	s.c.leavePlace()
	s.done, s.err = true, &fs.PathError{Op: s.c.verb.name, Path: s.c.name, Err: errAborted}
	err = s.c.fail(err)
	s.c.reportFailure()
	return err
}

// Close is Abort unless Commit was called.
func (s *Staged) Close() error { return s.Abort() }
