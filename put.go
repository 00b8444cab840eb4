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

var verbPut = verb{name: "put", changes: true, traced: true}

// PutOptions are the options of Put, PutFrom and Stage.
type PutOptions struct {
	// Mode is the exact mode of the file, whatever the umask. Zero keeps the mode
	// (and the owner, where permitted) of the file that is replaced, else 0600.
	Mode fs.FileMode
	// NoReplace makes an existing name an error that matches fs.ErrExist.
	NoReplace bool
	// IfMatch replaces only the object of this receipt, else the error matches
	// ErrChanged. A digest in the receipt is compared too and needs the right Read. Where the system can exchange two names the comparison is made
	// on what was displaced, and Receipt.Published is Swapped; another process can
	// see the new content for that moment even if it is taken back. Elsewhere it
	// is Checked: a change between comparison and replacement goes unnoticed.
	IfMatch *identity.Receipt
	// Durability is what to wait for; the policy's is the least.
	Durability Durability
	// Digest puts the SHA-256 into the receipt, Ancestry the identities of all
	// directories above the file.
	Digest   bool
	Ancestry bool
	// Parents makes missing directories, with the exact mode ParentMode or 0700.
	// It needs the right Mkdir.
	Parents    bool
	ParentMode fs.FileMode
	// MaxBytes limits the size beyond the policy's limit; zero does not.
	MaxBytes int64
}

// Put publishes data under name: complete, or not at all. A process killed at
// any point leaves the old file or the new one. On Linux a new file leaves
// nothing else behind; a replacement may leave a stage, see Sweep.
//
// It returns ErrSymlink when name is a link that the policy does not follow,
// ErrSpecial for a FIFO, socket or device, ErrTooLarge beyond a limit.
func (r *Root) Put(name string, data []byte, o PutOptions) (identity.Receipt, error) {
	var c call
	if err := c.begin(r, &verbPut, name); err != nil {
		return identity.Receipt{}, err
	}
	defer c.end()
	p := publication{c: &c, o: o}
	err := p.open()
	if err == nil {
		err = p.write(data)
	}
	var receipt identity.Receipt
	if err == nil {
		receipt, err = p.publish()
	}
	return receipt, c.fail(p.abort(err))
}

// PutFrom is Put for content that is read from src until io.EOF. An error of
// src, or the end of ctx between two reads, publishes nothing.
func (r *Root) PutFrom(ctx context.Context, name string, src io.Reader, o PutOptions) (identity.Receipt, error) {
	s, err := r.Stage(name, o)
	if err != nil {
		return identity.Receipt{}, err
	}
	defer s.Abort()
	buf := make([]byte, 128<<10)
	for empty := 0; ; {
		if err := ctx.Err(); err != nil {
			return identity.Receipt{}, s.c.fail(context.Cause(ctx))
		}
		n, rerr := src.Read(buf)
		if _, err := s.Write(buf[:n]); err != nil {
			return identity.Receipt{}, err
		}
		if rerr == io.EOF {
			return s.Commit()
		}
		if empty++; n > 0 {
			empty = 0
		}
		if rerr == nil && empty == 100 {
			rerr = io.ErrNoProgress
		}
		if rerr != nil {
			return identity.Receipt{}, s.c.fail(rerr)
		}
	}
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
// and Abort still cleans up.
func (r *Root) Stage(name string, o PutOptions) (*Staged, error) {
	s := &Staged{}
	if err := s.c.begin(r, &verbPut, name); err != nil {
		return nil, err
	}
	defer r.life.leave()
	s.p = publication{c: &s.c, o: o}
	err := s.p.open()
	if err == nil && !s.c.owned {
		// The stage outlives the call, so it needs a handle of its own.
		if s.c.dir, err = r.sys.dup(s.c.dir); err == nil {
			s.c.owned = true
		}
	}
	if err != nil {
		err = s.c.fail(s.p.abort(err))
		s.c.leavePlace()
		return nil, err
	}
	return s, nil
}

// Write adds to the content.
func (s *Staged) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(); err != nil {
		return 0, s.c.fail(err)
	}
	defer s.c.r.life.leave()
	if err := s.p.write(data); err != nil {
		return 0, s.c.fail(err)
	}
	return len(data), nil
}

func (s *Staged) enter() error {
	if s.done {
		return fs.ErrClosed
	}
	return s.c.r.life.enter()
}

// File returns a further descriptor of the staged file. It shares the file's
// offset and its lock, and stays open after Commit. It needs the right Share.
func (s *Staged) File() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(); err != nil {
		return nil, s.c.fail(err)
	}
	defer s.c.r.life.leave()
	if s.c.r.policy.Rights&Share == 0 {
		return nil, s.c.fail(because(ErrPolicy, "needs Share"))
	}
	h, err := s.c.r.sys.dup(s.p.file)
	if err != nil {
		return nil, s.c.fail(err)
	}
	return newFile(h, s.c.name), nil
}

// Commit publishes the content. Called again it returns the same result.
func (s *Staged) Commit() (identity.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.receipt, s.err
	}
	if err := s.c.r.life.enter(); err != nil {
		s.end(err)
		return s.receipt, s.err
	}
	defer s.c.r.life.leave()
	receipt, err := s.p.publish()
	if s.end(err); err == nil {
		s.receipt = receipt
	}
	return s.receipt, s.err
}

func (s *Staged) end(err error) {
	s.done, s.err = true, s.c.fail(s.p.abort(err))
	s.c.leavePlace()
}

// errAborted is what Commit returns after Abort.
var errAborted = errors.New("stage was aborted")

// Abort gives the publication up. After Commit, or called again, it does nothing.
func (s *Staged) Abort() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil
	}
	err := s.p.discard()
	s.c.leavePlace()
	s.done, s.err = true, s.c.fail(errAborted)
	return s.c.fail(err)
}

// Close is Abort unless Commit was called.
func (s *Staged) Close() error { return s.Abort() }
