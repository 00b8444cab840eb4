package caproot

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash"
	"io/fs"

	"github.com/caproot/caproot/identity"
)

func newSum() hash.Hash { return sha256.New() }

// attach gives the finished file the target's name. What the name holds is
// looked at anew for each try.
func (p *publication) attach() (identity.Publication, error) {
	for range maxRaces {
		if !p.exists {
			err := p.attachNew()
			if err == nil {
				return identity.Created, nil
			}
			if !errors.Is(err, fs.ErrExist) || p.o.NoReplace {
				return 0, err
			}
			// Someone made it meanwhile.
			if err := p.look(); err != nil {
				return 0, err
			}
			continue
		}
		how, err := p.attachOver()
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return how, err
		}
		// ENOENT of a rename is of the stage, or of the target's directory.
		if gone := p.checkTemp(); gone != nil {
			return 0, gone
		}
		if !p.goneMeanwhile() {
			return 0, err
		}
	}
	return 0, ErrUnstable
}

// goneMeanwhile sees that there is nothing to replace any more.
func (p *publication) goneMeanwhile() bool { return p.look() == nil && !p.exists }

// attachNew names the file where nothing is; EEXIST when something is.
func (p *publication) attachNew() error {
	c := p.c
	if p.temp == "" {
		err := c.r.sys.publish(p.file, c.dir, c.leaf)
		if err == nil || !notHere(err) {
			return err
		}
		if err := p.copyToNamed(); err != nil {
			return err
		}
	}
	if err := p.checkTemp(); err != nil {
		return err
	}
	err := moveNew(c.r.sys, c.dir, p.temp, c.dir, c.leaf)
	if err == nil {
		p.temp = ""
		return p.verify()
	}
	return err
}

// moveNew renames without ever replacing. Where the flag is missing a regular
// file is linked and unlinked instead; between the two it has both names.
func moveNew(sys system, from handle, name string, to handle, newName string) error {
	err := sys.rename(from, name, to, newName, noReplace)
	if err == nil || !noFlag(err) {
		return err
	}
	st, serr := sys.stat(from, name, false)
	if serr != nil {
		return serr
	}
	if !st.isRegular() {
		return &detail{ErrUnsupported, "no rename that refuses to replace", err}
	}
	if err := sys.link(from, name, to, newName); err != nil {
		return err
	}
	return sys.remove(from, name, false)
}

// attachOver replaces what the target names.
func (p *publication) attachOver() (identity.Publication, error) {
	c := p.c
	if p.temp == "" {
		if err := p.nameStage(); err != nil {
			return 0, err
		}
	}
	if err := p.checkTemp(); err != nil {
		return 0, err
	}
	if p.o.IfMatch != nil {
		return p.swap()
	}
	if p.o.Durability == DurabilityVolatile {
		if err := p.exchangeAway(); err == nil || !noFlag(err) {
			return identity.Renamed, err
		}
		p.lost = append(p.lost, "exchange")
	}
	if err := c.r.sys.rename(c.dir, p.temp, c.dir, c.leaf, replacing); err != nil {
		return 0, err
	}
	p.temp = ""
	return identity.Renamed, p.verify()
}

// nameStage gives an unnamed stage a name to be renamed from.
func (p *publication) nameStage() error {
	c := p.c
	for range maxRaces {
		name := stagePrefix + rand.Text()
		err := c.r.sys.publish(p.file, c.dir, name)
		switch {
		case err == nil:
			p.temp = name
			return nil
		case errors.Is(err, fs.ErrExist):
		case notHere(err):
			return p.copyToNamed()
		default:
			return err
		}
	}
	return ErrUnstable
}

// copyToNamed copies an unnamed stage that cannot be named, for want of the
// capability and of /proc, into one that has a name.
func (p *publication) copyToNamed() error {
	sys, old := p.c.r.sys, p.file
	p.lost = append(p.lost, "unnamed-file")
	name := stagePrefix + rand.Text()
	file, err := sys.open(p.c.dir, name, forRead|forWrite|creating|exclusive, stageMode(p.mode))
	if err != nil {
		return err
	}
	p.file, p.temp = file, name
	defer sys.close(old)
	if err := p.witness(); err != nil {
		return err
	}
	buf := make([]byte, 128<<10)
	for offset := int64(0); ; {
		n, err := sys.readAt(old, buf, offset)
		if err != nil {
			return err
		}
		if n == 0 {
			return p.finish()
		}
		if err := writeAll(sys, file, buf[:n]); err != nil {
			return err
		}
		offset += int64(n)
	}
}

// verify sees that the target names the file now.
//
// RACE: someone with rights in the directory who guesses the stage's 130 random
// bits, or lists the directory in the microseconds before, can have put another
// file under its name; that is noticed here, after the fact.
func (p *publication) verify() error {
	mine, err := p.c.r.sys.stat(p.file, "", false)
	if err != nil {
		return err
	}
	named, err := p.c.r.sys.stat(p.c.dir, p.c.leaf, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !named.sameNumbers(&mine) {
		return because(ErrChanged, "the target was replaced right after publication")
	}
	return nil
}

// exchangeAway puts the file in place by exchange and removes what it displaced.
func (p *publication) exchangeAway() error {
	c := p.c
	if err := c.r.sys.rename(c.dir, p.temp, c.dir, c.leaf, exchanging); err != nil {
		return err
	}
	temp := p.temp
	p.temp = ""
	return c.r.sys.remove(c.dir, temp, false)
}

// swap is compare-and-swap: what is displaced is inspected while it still has
// a name, and put back if it is not the expected object.
func (p *publication) swap() (identity.Publication, error) {
	c := p.c
	if err := p.expectAt(c.leaf); err != nil {
		return 0, err
	}
	err := c.r.sys.rename(c.dir, p.temp, c.dir, c.leaf, exchanging)
	if err != nil {
		if !noFlag(err) {
			return 0, err
		}
		p.lost = append(p.lost, "exchange")
		if err := c.r.sys.rename(c.dir, p.temp, c.dir, c.leaf, replacing); err != nil {
			return 0, err
		}
		p.temp = ""
		return identity.Checked, p.verify()
	}
	if err := p.expectAt(p.temp); err != nil {
		return 0, p.swapBack(err)
	}
	temp := p.temp
	p.temp = ""
	if err := c.r.sys.remove(c.dir, temp, false); err != nil {
		return 0, err
	}
	return identity.Swapped, nil
}

// expectAt compares what name holds with the expected receipt.
func (p *publication) expectAt(name string) error {
	h, err := p.c.r.sys.open(p.c.dir, name, pathOnly, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return because(ErrChanged, "the expected file is gone")
		}
		return err
	}
	defer p.c.r.sys.close(h)
	return p.c.expect(p.o.IfMatch, h, name)
}

// swapBack undoes an exchange that displaced the wrong object. If a third
// writer changed the target in between, everything keeps a name and the error
// tells it.
func (p *publication) swapBack(why error) error {
	c := p.c
	kept := &detail{ErrChanged, "displaced object kept as " + p.temp, why}
	if err := c.r.sys.rename(c.dir, p.temp, c.dir, c.leaf, exchanging); err != nil {
		p.temp = ""
		return kept
	}
	if p.checkTemp() != nil {
		p.temp = ""
		return kept
	}
	return why
}
