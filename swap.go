package caproot

import (
	"errors"
	"io/fs"
	"runtime"
	"syscall"

	"github.com/caproot/caproot/identity"
)

// exchangeAway puts the file in place by exchange and removes what it displaced.
func (p *publication) exchangeAway() error {
	c := p.c
	sys, leave, err := enterFence(c.r.sys)
	if err != nil {
		return err
	}
	defer leave()
	if err := p.settled(sys.rename(c.dir, p.temp, c.dir, c.leaf, exchanging)); err != nil {
		return err
	}
	// A rename would not have replaced a directory that came after the look.
	if st, err := sys.stat(c.dir, p.temp, false); err == nil && st.isDir() {
		return p.swapBack(sys, syscall.EISDIR)
	}
	p.drop(sys)
	p.verify()
	return nil
}

// drop removes what an exchange put under the stage's name. A failure takes
// nothing back: the target has its content, and the receipt tells what stayed.
func (p *publication) drop(sys system) {
	err := sys.remove(p.c.dir, p.temp, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.lose("cleanup")
	}
	p.temp = ""
}

// swap is compare-and-swap: what is displaced is inspected while it still has
// a name, and put back if it is not the expected object.
//
// Content that is taken back was visible for a moment, and must not be the
// expected object of another swap. The lock of claim excludes that: a stage is
// locked until its publication ends, so the other one does not get the lock.
func (p *publication) swap() (identity.Publication, error) {
	c := p.c
	target, err := p.claim()
	if err != nil {
		return 0, err
	}
	defer func() {
		if target != noHandle {
			c.r.sys.close(target)
		}
	}()
	if err := p.nameStage(); err != nil {
		return 0, err
	}
	if err := p.markStage(); err != nil {
		return 0, err
	}
	tried, err := p.exchange()
	switch {
	case !tried && err != nil && noFlag(err):
		p.lose("exchange")
		err = p.replace()
		if errors.Is(err, fs.ErrPermission) {
			// A Windows without the renames of POSIX replaces no file that is open.
			c.r.sys.close(target)
			target = noHandle
			err = p.replaceUnlocked()
		}
		return identity.Checked, err
	case err != nil:
		return 0, err
	}
	p.verify()
	return identity.Swapped, nil
}

// replaceUnlocked compares again and replaces, without the lock of claim.
func (p *publication) replaceUnlocked() error {
	p.lose("swap-lock")
	if err := p.expectAt(p.c.leaf); err != nil {
		return err
	}
	return p.replace()
}

// exchange is the swap of the claimed target, and its way back, behind one
// passage of a fence: a successor comes before both or after both. tried is false
// when the names were not exchanged.
func (p *publication) exchange() (tried bool, err error) {
	c := p.c
	sys, leave, err := enterFence(c.r.sys)
	if err != nil {
		return false, err
	}
	defer leave()
	if err := p.settled(sys.rename(c.dir, p.temp, c.dir, c.leaf, exchanging)); err != nil {
		return false, err
	}
	if err := p.expectAt(p.temp); err != nil {
		return true, p.swapBack(sys, err)
	}
	p.drop(sys)
	return true, nil
}

// claim opens and locks what the target names, which must be the expected
// object. Of the swaps that expect one object, in all processes, one has the
// lock. It is advisory: who does not compare is not kept out.
func (p *publication) claim() (handle, error) {
	c := p.c
	h, err := c.r.sys.open(c.dir, c.leaf, pathOnly, 0)
	if err != nil {
		return noHandle, absent(err)
	}
	mine, err := c.r.sys.stat(h, "", false)
	if err == nil {
		err = c.expect(p.o.IfMatch, h, c.leaf)
	}
	file := h
	if err == nil {
		file, err = p.readable(h, &mine)
	}
	if err == nil {
		err = p.lockTarget(file, &mine, file == h)
	}
	if file != h {
		c.r.sys.close(h)
	}
	if err != nil {
		c.r.sys.close(file)
		return noHandle, absent(err)
	}
	return file, nil
}

// readable opens the target, of which object is a handle for resolution, so that
// it can be locked; where it cannot be read that is object itself. Nothing else
// than the expected object was to be opened: an open of a FIFO or a device is
// noticed.
//
// RACE: what takes the name between the two opens is opened all the same, without
// waiting, and closed.
func (p *publication) readable(object handle, st *status) (handle, error) {
	c := p.c
	h, err := c.r.sys.open(c.dir, c.leaf, forRead|nonBlocking, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return object, err
	}
	if err != nil {
		return object, nil
	}
	now, err := c.r.sys.stat(h, "", false)
	if err == nil && !now.sameNumbers(st) {
		err = because(ErrChanged, "replaced while it was compared")
	}
	if err != nil {
		c.r.sys.close(h)
		return object, err
	}
	return h, nil
}

// lockTarget locks the expected object and sees that the target still names it.
// Who has the lock needs a few system calls to replace the object, or it is a
// process that locks the file for reasons of its own: the wait has an end.
//
// By the lock a sweep knows that the process lives, so what is displaced gets a
// seal only with it.
func (p *publication) lockTarget(h handle, mine *status, unreadable bool) (err error) {
	c := p.c
	for range maxRaces {
		p.seal = sealOf(mine)
		if !unreadable {
			err = c.r.sys.lock(h)
		}
		if unreadable || err != nil && noLock(err) {
			p.lose("swap-lock")
			p.seal, err = noSeal, nil
		}
		named, serr := c.r.sys.stat(c.dir, c.leaf, false)
		switch {
		case serr != nil:
			return serr
		case !named.sameNumbers(mine):
			return because(ErrChanged, "replaced while it was compared")
		case err == nil:
			return nil
		}
		runtime.Gosched()
	}
	return &detail{ErrUnstable, "the expected file is locked", err}
}

// absent makes the absence of what was expected a change.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return because(ErrChanged, "the expected file is gone")
	}
	return err
}

// expectAt compares what name holds with the expected receipt.
func (p *publication) expectAt(name string) error {
	h, err := p.c.r.sys.open(p.c.dir, name, pathOnly, 0)
	if err != nil {
		return absent(err)
	}
	defer p.c.r.sys.close(h)
	return absent(p.c.expect(p.o.IfMatch, h, name))
}

// swapBack undoes an exchange that displaced the wrong object. If a third
// writer changed the target in between, everything keeps a name and the error
// tells it.
func (p *publication) swapBack(sys system, why error) error {
	c := p.c
	kept := &detail{ErrChanged, "a file of another writer is kept as " + p.temp, why}
	if err := sys.rename(c.dir, p.temp, c.dir, c.leaf, exchanging); err != nil {
		p.temp = ""
		return kept
	}
	if p.checkTemp() != nil {
		p.temp = ""
		return kept
	}
	return why
}
