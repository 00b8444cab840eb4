package lock

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot"
)

// publishGuard makes the guard under which a record is removed. Peers wait
// while there is one.
func (p *place) publishGuard() (*candidate, error) {
	for {
		guard, err := p.newCandidate(false)
		if err != nil {
			return nil, err
		}
		err = guard.write(p, defaultPayload(), false)
		if err == nil {
			err = guard.publish(p, p.guard)
		}
		if err == nil {
			return guard, nil
		}
		// A guard that was swept away is made anew, or in another way: what does
		// not work here was remembered.
		if derr := guard.discard(p); derr != nil || !errors.Is(err, errSwept) {
			return nil, errors.Join(err, derr)
		}
	}
}

// takeGuard is publishGuard for a release: it clears away a guard whose maker is
// proved dead, because nobody else may come to do it, and waits a quarter of a
// second for any other.
func (p *place) takeGuard() (*candidate, error) {
	a := acquisition{request: &request{place: *p}}
	for pause := time.Millisecond; ; pause *= 2 {
		guard, err := p.publishGuard()
		if !errors.Is(err, fs.ErrExist) {
			return guard, err
		}
		in, err := a.passGuard(nil)
		in.drop()
		switch {
		case err != nil:
			return nil, err
		case pause > 128*time.Millisecond:
			return nil, &BusyError{LockPath: p.lockPath, Guard: true}
		}
		time.Sleep(pause)
	}
}

// removeGuard ends the guard. One that cannot be removed is closed, which makes
// it a dead one that the next contender clears.
func (p *place) removeGuard(guard *candidate) error {
	err := guard.remove(p, p.guard)
	if err == nil || gone(err) {
		return nil
	}
	guard.abandon()
	return err
}

// passGuard returns nil when no guard is in the way, or not any more. locked is
// the guard, open and locked, if a wait for it has ended.
//
// A guard whose maker is proved dead is removed. Any other, a directory or a
// file without a witness, is that of a peer that may live, and nothing ever
// expires it.
func (a *acquisition) passGuard(locked *os.File) (*obstacle, error) {
	name, f := a.place.guard, locked
	if f == nil {
		if exists, err := a.place.dir.Lexists(name); err != nil || !exists {
			return nil, err
		}
		var err error
		if f, err = a.lockGuard(); err == errLocked {
			o, err := look(f)
			return &obstacle{kind: alive, guard: true, file: f, id: o.id}, err
		} else if err != nil || f == nil {
			return foreignGuard(err)
		}
	}
	defer unlockClose(f)
	if err := a.place.dir.CheckSame(name, f); err != nil {
		if gone(err) {
			err = nil
		}
		return lookAgain, err
	}
	proved, err := a.provesDeath(name, f)
	if err != nil || !proved {
		return &obstacle{kind: unproved, guard: true}, err
	}
	if err := a.place.dir.RemoveSame(name, f); err != nil && !gone(err) {
		return nil, err
	}
	return nil, nil
}

// lockGuard opens and locks the guard, if it is one that its maker may lock. The
// file comes back with errLocked too.
func (a *acquisition) lockGuard() (*os.File, error) {
	f, o, err := a.place.openNamed(a.place.guard)
	if err != nil {
		return nil, err
	}
	if !o.regular || o.foreign() || o.nlink != 1 || o.size > MaxRecordBytes {
		f.Close()
		return nil, nil
	}
	err = flock(f, false)
	if err == errLocked || err == nil {
		return f, err
	}
	f.Close()
	return nil, nil
}

// foreignGuard sorts the answers for a guard that cannot be opened as one of
// ours: what has the name stands in the way, whatever it is.
func foreignGuard(err error) (*obstacle, error) {
	occupied := &obstacle{kind: unproved, guard: true}
	switch {
	case err == nil, errors.Is(err, caproot.ErrSymlink), errors.Is(err, caproot.ErrEscape), errors.Is(err, caproot.ErrSpecial),
		errors.Is(err, caproot.ErrHardlink), errors.Is(err, caproot.ErrMount),
		errors.Is(err, fs.ErrPermission) && !errors.Is(err, caproot.ErrPolicy):
		return occupied, nil
	case errors.Is(err, fs.ErrNotExist):
		return lookAgain, nil
	}
	return nil, err
}
