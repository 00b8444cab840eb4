package lock

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot"
)

// evictInfix is between the name of a record and the random end of the name under
// which it is looked at for the last time.
const evictInfix = ".evict."

// evictRandom is the length of that end, which is a rand.Text.
const evictRandom = 26

// unreadableGrace is the least time that a record without sense is given: its
// maker may be writing it.
const unreadableGrace = time.Second

var errExternal = fmt.Errorf("%w: the tokens of the resource come from elsewhere", ErrOption)

// observation is one look at fence and record, without any lock.
type observation struct {
	fence   fenceView
	file    *os.File // the record; nil: there is none
	id      recordID
	text    []byte // of the record
	mtime   time.Time
	record  LeaseRecord
	isLease bool
}

func (o *observation) close() {
	if o.file != nil {
		o.file.Close()
	}
}

// mark changes with whatever a holder does.
func (o *observation) mark() string { return fmt.Sprint(o.id, o.fence.raw, string(o.text)) }

// ofFence tells that the record is one of a lease whose token this fence issued.
func (o *observation) ofFence() bool {
	return o.isLease && o.record.Fence == hex.EncodeToString(o.fence.epoch[:]) && o.record.FencingToken <= o.fence.token
}

// unreadable tells that a record says nothing, and its grace is over.
func (o *observation) unreadable() bool {
	text, _, _ := splitRecord(o.text)
	payload, _ := parseObject(text)
	return payload == nil && time.Since(o.mtime) > max(unreadableGrace, o.fence.ttl)
}

// look opens the record and reads the fence. A record that is torn is read once
// more.
func (a *leaseAcquisition) look() (*observation, error) {
	o, err := a.lookAtRecord()
	if err != nil {
		return nil, err
	}
	if o.fence, err = a.file.observe(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (a *leaseAcquisition) lookAtRecord() (*observation, error) {
	f, st, err := a.place.openNamed(a.place.leaf)
	if errors.Is(err, fs.ErrNotExist) {
		return &observation{}, nil
	}
	if err != nil {
		return nil, a.openError(err)
	}
	o := &observation{file: f, id: st.id, mtime: st.mtime}
	if err = a.unusable(&st); err == nil {
		err = o.readTwice(st.size)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *observation) readTwice(size int64) (err error) {
	for range 2 {
		if o.text, err = readRecord(o.file, size); err != nil {
			return err
		}
		if o.record, o.isLease = parseLease(o.text); o.isLease {
			return nil
		}
	}
	return nil
}

// evicted is a name for a record that is evicted.
func (p *place) evicted() string { return p.leaf + evictInfix + rand.Text() }

// evict takes the record that was judged out of the way: to a name of its own,
// where it is compared once more, and removed. What turns out to be another one is
// put back. It returns false when somebody else was faster.
func (a *leaseAcquisition) evict(o *observation) (ok bool, err error) {
	guard, err := a.place.publishGuard()
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, a.place.removeGuard(guard)) }()
	aside := a.place.evicted()
	err = a.place.dir.MoveSame(a.place.leaf, aside, o.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil // its holder released it
	case errors.Is(err, caproot.ErrChanged):
		return false, a.place.putBack(aside)
	case err != nil:
		return false, err
	}
	raw, err := readRecord(o.file, int64(len(o.text)))
	if err == nil && string(raw) != string(o.text) {
		return false, a.place.putBack(aside)
	}
	if err == nil {
		err = a.place.dir.RemoveSame(aside, o.file)
	}
	if gone(err) {
		err = nil // out of the way all the same
	}
	return err == nil, err
}
