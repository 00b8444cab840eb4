package lock

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
)

// consent is asked for before a record is removed whose holder is not proved
// dead.
type consent struct {
	raw []byte // what was judged
	ask func() error
}

// replace puts the candidate in the place of the record that f has open, under
// the guard. For a proved death the caller holds the system's lock on f from
// before to after, and there is no consent to ask for.
//
// The dead record is unlinked and another one linked, never renamed over or
// written to: what another process made meanwhile is not touched, and one inode
// never has two owners. Killed anywhere in here, the process leaves a dead
// record, a dead guard, or both, which the next contender clears.
func (a *acquisition) replace(f *os.File, c *consent) (held bool, _ *obstacle, err error) {
	guard, err := a.place.publishGuard()
	if err != nil {
		return a.lookAgainIf(err)
	}
	defer func() {
		if gerr := a.place.removeGuard(guard); gerr != nil {
			held, err = false, errors.Join(err, gerr)
		}
	}()
	same, err := a.agreed(f, c)
	if err != nil || !same {
		return false, lookAgain, err
	}
	if err := a.place.dir.RemoveSame(a.place.leaf, f); err != nil {
		return a.lookAgainIf(err)
	}
	return a.publish()
}

// lookAgainIf turns the answers for a change under the attempt into another
// look, and lets every other error be.
func (a *acquisition) lookAgainIf(err error) (bool, *obstacle, error) {
	if gone(err) || errors.Is(err, fs.ErrExist) || errors.Is(err, errSwept) {
		return false, lookAgain, nil
	}
	return false, nil, err
}

// agreed compares the record with what was judged, and with consent to ask for
// does so before and after. An error of the callback comes back unchanged, also
// when the record changed too.
func (a *acquisition) agreed(f *os.File, c *consent) (same bool, _ error) {
	if same, err := a.still(f, c); err != nil || !same || c == nil {
		return same, err
	}
	if err := c.ask(); err != nil {
		return false, err
	}
	return a.still(f, c)
}

// still compares identity, and with a consent the bytes.
func (a *acquisition) still(f *os.File, c *consent) (bool, error) {
	if err := a.place.dir.CheckSame(a.place.leaf, f); err != nil {
		if gone(err) {
			return false, nil
		}
		return false, err
	}
	if c == nil {
		return true, nil
	}
	o, err := look(f)
	if err != nil || o.size != int64(len(c.raw)) || registry.holder(o.id) != nil {
		return false, err
	}
	now, err := readRecord(f, o.size)
	return bytes.Equal(now, c.raw), err
}

// publish gives the candidate the name of the record and sees that it has it.
func (a *acquisition) publish() (held bool, _ *obstacle, err error) {
	if err := a.cand.publish(&a.place, a.place.leaf); err != nil {
		if errors.Is(err, errSwept) {
			return false, lookAgain, a.retreat()
		}
		return a.lookAgainIf(err)
	}
	a.published = true
	return a.confirm()
}

// confirm looks at the published record by its name. A replacement is never
// adopted, and never removed.
func (a *acquisition) confirm() (held bool, _ *obstacle, err error) {
	err = a.cand.arrived(&a.place, a.place.leaf)
	switch {
	case err == nil:
		return a.tested()
	case gone(err):
		a.published = false
		a.cand.abandon()
		a.cand = nil
		return false, lookAgain, nil
	}
	return false, nil, err
}

// tested sees, once for each file system, that locks work on it at all. Where
// they do not the record is made again without a witness.
func (a *acquisition) tested() (held bool, _ *obstacle, err error) {
	if !a.cand.witness {
		return true, nil, nil
	}
	works, err := a.place.locksWork(a.place.leaf, a.cand.file)
	if err != nil || works {
		return works, lookAgain, err
	}
	return false, lookAgain, a.retreat()
}

// retreat takes back what the acquisition has made.
func (a *acquisition) retreat() error {
	c := a.cand
	if c == nil {
		return nil
	}
	a.cand = nil
	if !a.published {
		return c.discard(&a.place)
	}
	a.published = false
	err := c.remove(&a.place, a.place.leaf)
	if err != nil && !gone(err) {
		// Closed, it is the record of a dead holder.
		c.abandon()
		return err
	}
	return nil
}
