package lock

import (
	"os"
	"sync"
)

// maker is a way to make a record.
type maker uint8

const (
	makeUnnamed maker = iota // a file without a name, then linked
	makeNamed                // a private name, then a rename that never replaces
	makePlain                // exclusive creation, as fs-safe does; no witness
)

// device is what was learnt about a file system.
type device struct {
	mu     sync.Mutex
	how    maker
	tested bool
}

func (d *device) maker() maker {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.how
}

// lower remembers that a better way does not work.
func (d *device) lower(to maker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.how = max(d.how, to)
}

// proves reports whether locks were seen to work, and whether that is known.
func (d *device) proves() (works, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tested && d.how != makePlain, d.tested || d.how == makePlain
}

func (d *device) passed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tested = true
}

var devices deviceTable

type deviceTable struct {
	mu sync.Mutex
	m  map[uint64]*device
}

func (t *deviceTable) of(dev uint64) *device {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.m[dev]
	if d == nil {
		d = &device{}
		if t.m == nil {
			t.m = map[uint64]*device{}
		}
		t.m[dev] = d
	}
	return d
}

// locksWork tests, once for a device, that the system refuses a second lock on
// the file that f has locked under the name. A file system may accept every
// lock and enforce none.
func (p *place) locksWork(name string, f *os.File) (bool, error) {
	d := devices.of(p.id.dev)
	if works, known := d.proves(); known {
		return works, nil
	}
	mine, err := look(f)
	if err != nil {
		return false, err
	}
	second, o, err := p.openNamed(name)
	if err != nil {
		if gone(err) {
			err = nil
		}
		return false, err
	}
	defer second.Close()
	if o.id != mine.id {
		return false, nil
	}
	if flock(second, false) == errLocked {
		d.passed()
		return true, nil
	}
	funlock(second)
	d.lower(makePlain)
	return false, nil
}

// trusted reports whether the lock of the file is proof.
func trusted(f *os.File) bool {
	_, proof := viewOf(f)
	return proof
}
