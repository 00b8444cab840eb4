package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot"
)

// State is what is known of a lock.
type State uint8

const (
	// Unknown: there is a record, and nothing proves whether its holder lives.
	Unknown State = iota
	// Free: there is no record.
	Free
	// Held: the holder has the system's lock on the record, so it lives.
	Held
	// Dead: nobody has the lock that the record says its holder has.
	Dead
)

// String returns "unknown", "free", "held" or "dead".
func (s State) String() string {
	return [...]string{"unknown", "free", "held", "dead"}[min(s, 3)]
}

// Status describes a lock at one moment. By the time it is read it may be
// another: it is for people, and no substitute for an acquisition.
type Status struct {
	State    State
	LockPath string
	// Guard is the state of the reclaim guard. While it is not Free, nobody
	// acquires.
	Guard State
	// Payload is the JSON of the record, nil when there is none or it is not
	// readable. It may be any bytes where the maker was not of this protocol.
	Payload []byte
	// Since is the record's createdAt, or its time of modification.
	Since time.Time
	// Stale tells that the record is older than StaleAfter. It means nothing for
	// a holder that is Held or Dead.
	Stale bool
	// Own is set when this process holds the lock.
	Own bool
	// Trusted tells that the lock on the record is taken for proof: its file system
	// is of a known kind, and was not seen to grant a lock twice. Where it is false
	// nobody is proved dead. Without a record it is false.
	Trusted bool
}

// Inspect looks at the lock of a target without taking it. It uses LockPath and
// StaleAfter of the options. A record that no holder makes is a *RecordError.
//
// For a moment it has the system's lock on a record whose holder is dead, so a
// contender may look twice.
func Inspect(ctx context.Context, r *caproot.Root, target string, o Options) (Status, error) {
	if err := o.complete(); err != nil {
		return Status{}, err
	}
	o.Payload = nil
	q := request{ctx: ctx, r: r, target: target, o: o}
	lockPath, err := q.admit()
	if err != nil {
		return Status{}, err
	}
	if err := q.openPlace(lockPath); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Status{State: Free, Guard: Free, LockPath: lockPath}, nil
		}
		return Status{}, err
	}
	defer q.place.close()
	a := acquisition{request: &q}
	s := Status{LockPath: q.place.lockPath}
	if s.Guard, err = a.guardState(); err != nil {
		return s, err
	}
	return s, a.recordState(&s)
}

func (a *acquisition) guardState() (State, error) {
	exists, err := a.place.dir.Lexists(a.place.guard)
	if err != nil || !exists {
		return Free, err
	}
	f, err := a.lockGuard()
	switch {
	case err == errLocked:
		f.Close()
		return Held, nil
	case errors.Is(err, fs.ErrNotExist):
		return Free, nil
	case err != nil || f == nil:
		in, err := foreignGuard(err)
		if in == lookAgain {
			return Free, nil
		}
		return Unknown, err
	}
	defer unlockClose(f)
	return a.deadOrUnknown(a.place.guard, f)
}

// recordState fills in what the record tells.
func (a *acquisition) recordState(s *Status) error {
	f, o, err := a.place.openNamed(a.place.leaf)
	if errors.Is(err, fs.ErrNotExist) {
		s.State = Free
		return nil
	}
	if err != nil {
		return a.openError(err)
	}
	defer f.Close()
	if err := a.unusable(&o); err != nil && o.nlink != 0 {
		return err
	}
	raw, err := readRecord(f, o.size)
	if err != nil {
		return &RecordError{a.place.lockPath, err}
	}
	age := ageOf(raw, o.mtime)
	s.Since, s.Stale = age.since, age.stale(a.o.StaleAfter, time.Now())
	s.Payload, _, _ = splitRecord(raw)
	s.Own, s.Trusted = registry.holder(o.id) != nil, trusted(f) && devices.of(o.id.dev).maker() != makePlain
	switch err := flock(f, false); {
	case err == errLocked:
		s.State = Held
		return nil
	case err != nil:
		return nil
	}
	defer funlock(f)
	s.State, err = a.deadOrUnknown(a.place.leaf, f)
	return err
}

// deadOrUnknown judges what is open and locked under a name.
func (a *acquisition) deadOrUnknown(name string, f *os.File) (State, error) {
	if err := a.place.dir.CheckSame(name, f); err != nil {
		if gone(err) {
			return Free, nil
		}
		return Unknown, err
	}
	proved, err := a.provesDeath(name, f)
	if proved {
		return Dead, nil
	}
	return Unknown, err
}
