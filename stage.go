package caproot

import (
	"crypto/rand"
	"errors"
	"hash"
	"io/fs"
	"syscall"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

// stagePrefix begins the name of every stage. The rest is random and does not
// derive from the target, whose name may already be as long as a name can be.
const stagePrefix = ".caproot-stage-"

// publication is new content on its way to a name. It lives on the stack of
// Put, or in a Staged.
type publication struct {
	c    *call
	o    PutOptions
	mode fs.FileMode // exact; valid when exact
	keep bool        // the mode of what is replaced, if anything

	file handle
	temp string // name of the stage; "" while the file has none
	size int64
	sum  hash.Hash
	lost []string

	exists bool
	old    status // of what the target names now
}

// open checks the target and makes an empty stage beside it.
func (p *publication) open() (err error) {
	c := p.c
	p.file = noHandle
	if p.mode, err = c.exactMode(p.o.Mode); err != nil {
		return err
	}
	if p.keep = p.o.Mode == 0; p.keep {
		p.mode = 0o600 & c.r.policy.Modes
	}
	if c.shape.MustDir {
		return syscall.EISDIR
	}
	p.o.Durability = c.durability(p.o.Durability)
	if err := p.toPlace(); err != nil {
		return err
	}
	if err := p.look(); err != nil {
		return err
	}
	if p.o.Digest {
		p.sum = newSum()
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
	switch {
	case st.isLink():
		return ErrSymlink
	case st.isDir():
		return syscall.EISDIR
	case st.isSpecial():
		return ErrSpecial
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
	p.lost = append(p.lost, "unnamed-file")
	for range maxRaces {
		name := stagePrefix + rand.Text()
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
		// A sweep may have taken the stage for a dead one before it was locked.
		if p.checkTemp() == nil {
			return nil
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
	if err != nil && notHere(err) || err == syscall.ENOLCK {
		p.lost = append(p.lost, "stage-lock")
		return nil
	}
	return err
}

func (p *publication) write(data []byte) error {
	if p.size += int64(len(data)); p.size > p.limit() {
		return ErrTooLarge
	}
	if p.sum != nil {
		p.sum.Write(data)
	}
	return writeAll(p.c.r.sys, p.file, data)
}

func (p *publication) limit() int64 {
	limit := p.c.r.policy.MaxWriteBytes
	if p.o.MaxBytes > 0 {
		limit = min(limit, p.o.MaxBytes)
	}
	return limit
}

// publish gives the complete file the target's name.
func (p *publication) publish() (identity.Receipt, error) {
	c := p.c
	t := telling{op: "put", object: p.file, asked: p.o.Durability, ancestry: p.o.Ancestry}
	if err := p.finish(); err != nil {
		return identity.Receipt{}, err
	}
	var err error
	if t.published, err = p.attach(); err != nil {
		return identity.Receipt{}, err
	}
	if t.achieved, err = c.syncDir(c.dir, t.asked, &p.lost); err != nil {
		return identity.Receipt{}, err
	}
	if p.sum != nil {
		t.digest = hexSum(p.sum)
	}
	t.lost = p.lost
	return c.tell(&t)
}

// finish gives the file owner, mode and stable storage before it has a name.
func (p *publication) finish() error {
	sys := p.c.r.sys
	st, err := sys.stat(p.file, "", false)
	if err != nil {
		return err
	}
	mode := p.mode
	if p.exists && p.keep {
		mode = p.old.mode & allModes & p.c.r.policy.Modes
		if a, ok := sys.(accessCopier); ok && a.copyAccess(p.c.dir, p.c.leaf, p.file) != nil {
			p.lost = append(p.lost, "access-list")
		}
	}
	if p.exists && (st.uid != p.old.uid || st.gid != p.old.gid) {
		if err := sys.chown(p.file, int(p.old.uid), int(p.old.gid)); err != nil {
			// A setuid bit must not move to another owner.
			mode &^= fs.ModeSetuid | fs.ModeSetgid
			p.lost = append(p.lost, "owner")
		}
	}
	if err := setMode(sys, p.file, st.mode&allModes, mode); err != nil {
		return err
	}
	return p.c.syncFile(p.file, p.o.Durability)
}

// setMode changes the mode through the handle and reads it back: a file system
// without modes refuses the change, or takes it and does nothing.
func setMode(sys system, h handle, have, want fs.FileMode) error {
	if sameMode(have, want) {
		return nil
	}
	if err := sys.chmod(h, want); err != nil {
		return err
	}
	st, err := sys.stat(h, "", false)
	if err == nil && !sameMode(st.mode&allModes, want) {
		err = because(ErrUnsupported, "the file system did not take mode "+want.String())
	}
	return err
}

// discard takes a stage away that did not become the target.
func (p *publication) discard() error {
	if p.file == noHandle {
		return nil
	}
	var err error
	if p.temp != "" {
		if err = p.checkTemp(); err == nil {
			err = p.c.r.sys.remove(p.c.dir, p.temp, false)
		} else if err == errStageGone {
			err = nil
		}
		p.temp = ""
	}
	if cerr := p.c.r.sys.close(p.file); err == nil {
		err = cerr
	}
	p.file = noHandle
	return err
}

// abort discards the stage after err and reports both, err first.
func (p *publication) abort(err error) error {
	if derr := p.discard(); derr != nil && err != nil {
		return multierror.Append(err, derr)
	}
	return err
}

// errStageGone is a change, not an absence: the target may well be there.
var errStageGone = because(ErrChanged, "the stage was taken away")

// checkTemp compares what the stage's name names with the open file.
func (p *publication) checkTemp() error {
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
