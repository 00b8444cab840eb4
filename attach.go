package caproot

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash"
	"io/fs"
	"strings"

	"github.com/caproot/caproot/identity"
)

func newSum() hash.Hash { return sha256.New() }

// attach gives the finished file the target's name. What the name holds is
// looked at anew for each try.
func (p *publication) attach() (identity.Publication, error) {
	for range maxRaces {
		if err := p.permit(); err != nil {
			return 0, err
		}
		if !p.exists {
			how, err := p.attachNew()
			if err == nil {
				return how, nil
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
		if err := p.checkTemp(); err != nil {
			return 0, err
		}
		if err := p.look(); err != nil {
			return 0, err
		}
	}
	return 0, ErrUnstable
}

// permit is passed before each try. On a grant the target is looked at first:
// whoever is asked must not be asked about what is going to be refused. A source
// is compared again too.
func (p *publication) permit() error {
	if p.c.g != nil && !p.o.NoReplace {
		if err := p.look(); err != nil {
			return err
		}
	}
	err := p.c.permit(StepPublish, 0)
	if err == nil && p.source != nil {
		err = p.source.grant.holds()
	}
	if err == nil && p.c.g != nil && p.source != nil {
		err = p.source.unchanged()
	}
	return err
}

// attachNew names the file where nothing is; EEXIST when something is.
// Where no call refuses to replace, and the caller does not mind, it is renamed.
func (p *publication) attachNew() (identity.Publication, error) {
	c := p.c
	if p.temp == "" {
		err := p.settled(c.r.sys.publish(p.file, c.dir, c.leaf))
		if err == nil || !notHere(err) {
			return identity.Created, err
		}
		if err := p.copyToNamed(); err != nil {
			return 0, err
		}
	}
	if err := p.checkTemp(); err != nil {
		return 0, err
	}
	err := moveNew(c.r.sys, c.dir, p.temp, c.dir, c.leaf)
	if errors.Is(err, ErrUnsupported) && !p.o.NoReplace && c.r.policy.Rights&Replace != 0 {
		p.lose("no-replace")
		return identity.Renamed, p.replace()
	}
	if errors.Is(err, errBothNames) {
		p.lose("cleanup")
		err = nil
	}
	if err = p.settled(err); err != nil {
		return 0, err
	}
	p.temp = ""
	p.verify()
	return identity.Created, nil
}

// errBothNames is moveNew's answer when the new name is there and the old one
// could not be taken away.
var errBothNames = errors.New("linked, but the old name could not be removed")

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
	if lerr := sys.link(from, name, to, newName); lerr != nil {
		now, serr := sys.stat(to, newName, false)
		switch {
		case serr == nil && now.sameNumbers(&st) && !errors.Is(lerr, fs.ErrExist):
			// A reply was lost. Without the old name it is a whole move whose reply was.
			sys.remove(from, name, false)
		case noLink(lerr):
			return &detail{ErrUnsupported, "no rename that refuses to replace, and no hard link", lerr}
		}
		return lerr
	}
	if err := sys.remove(from, name, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &detail{errBothNames, err.Error(), err}
	}
	return nil
}

// attachOver replaces what the target names.
func (p *publication) attachOver() (identity.Publication, error) {
	if p.o.IfMatch != nil {
		return p.swap()
	}
	if err := p.nameStage(); err != nil {
		return 0, err
	}
	if p.o.Durability == DurabilityVolatile {
		if err := p.exchangeAway(); err == nil || !noFlag(err) {
			return identity.Renamed, err
		}
		p.lose("exchange")
	}
	return identity.Renamed, p.replace()
}

// replace renames over what the target names.
func (p *publication) replace() error {
	c := p.c
	if err := p.settled(c.r.sys.rename(c.dir, p.temp, c.dir, c.leaf, replacing)); err != nil {
		return err
	}
	p.temp = ""
	p.verify()
	return nil
}

// settled is what the answer of a call that gives the target its file comes to. A
// server can lose its reply: then the call fails and the target names the file all
// the same. The publication goes on and tells that failure at its end.
func (p *publication) settled(err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || noFlag(err) || notHere(err) {
		return err
	}
	mine, merr := p.c.r.sys.stat(p.file, "", false)
	named, nerr := p.c.r.sys.stat(p.c.dir, p.c.leaf, false)
	if merr != nil || nerr != nil || !named.sameNumbers(&mine) {
		return err
	}
	p.late = err
	return nil
}

// nameStage gives an unnamed stage a name to be renamed from, and sees that it
// has it.
func (p *publication) nameStage() error {
	c := p.c
	for range maxRaces {
		if p.temp != "" {
			return p.checkTemp()
		}
		name, err := p.stageName()
		if err != nil {
			return err
		}
		switch err = c.r.sys.publish(p.file, c.dir, name); {
		case err == nil:
			p.temp = name
		case errors.Is(err, fs.ErrExist):
		case !notHere(err):
			return err
		default:
			if err := p.copyToNamed(); err != nil {
				return err
			}
		}
	}
	return ErrUnstable
}

// stageName is a new name for the stage, with marks before an exchange that may
// have to be taken back.
func (p *publication) stageName() (string, error) {
	if p.o.IfMatch == nil {
		return newStageName(), nil
	}
	prefix, err := p.marks()
	return prefix + rand.Text(), err
}

func (p *publication) marks() (string, error) {
	st, err := p.c.r.sys.stat(p.file, "", false)
	return marks(&st, p.seal), err
}

// markStage renames a stage that got its name before there was a number, or
// before the object to displace was known.
func (p *publication) markStage() error {
	c := p.c
	prefix, err := p.marks()
	if err != nil {
		return err
	}
	for range maxRaces {
		if strings.HasPrefix(p.temp, prefix) {
			return nil
		}
		name := prefix + rand.Text()
		err := moveNew(c.r.sys, c.dir, p.temp, c.dir, name)
		if errors.Is(err, ErrUnsupported) {
			// Nothing has the random name.
			err = c.r.sys.rename(c.dir, p.temp, c.dir, name, replacing)
		}
		switch {
		case err == nil:
			p.temp = name
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	return ErrUnstable
}

// share makes sure, before the file is handed out, that it is this file that
// will get the target's name.
func (p *publication) share() error {
	if p.shared = true; p.temp != "" {
		return nil
	}
	// "." is always there: an answer about it says that the call works.
	if err := p.c.r.sys.publish(p.file, p.c.dir, "."); err != nil && notHere(err) {
		return p.copyToNamed()
	}
	return nil
}

// copyToNamed copies an unnamed stage that cannot be named, for want of the
// capability and of /proc, into one that has a name.
func (p *publication) copyToNamed() error {
	sys, old := p.c.r.sys, p.file
	p.lose("unnamed-file")
	name := newStageName()
	file, err := sys.open(p.c.dir, name, forRead|forWrite|creating|exclusive, stageMode(p.mode))
	if err != nil {
		return err
	}
	p.file, p.temp = file, name
	defer sys.close(old)
	if err := p.witness(); err != nil {
		return err
	}
	buf := make([]byte, copyBytes)
	for offset := int64(0); ; {
		n, err := sys.readAt(old, buf, offset)
		if err != nil {
			return err
		}
		if n == 0 {
			return p.finish()
		}
		if _, err := writeAll(sys, file, buf[:n]); err != nil {
			return err
		}
		offset += int64(n)
	}
}

// verify looks whether the target names the file now. If not, the next writer
// or a consumer of the file was fast, which is no failure of this call.
//
// RACE: or someone with rights in the directory listed it in the microseconds
// before and put another file under the stage's name. That cannot be told apart,
// and gains nothing over replacing the target.
func (p *publication) verify() {
	mine, err := p.c.r.sys.stat(p.file, "", false)
	named, nerr := p.c.r.sys.stat(p.c.dir, p.c.leaf, false)
	if err != nil || nerr != nil || !named.sameNumbers(&mine) {
		p.lose("unverified")
	}
}
