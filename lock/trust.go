package lock

import "sync"

// maker is a way to make a record.
type maker uint8

const (
	makeUnnamed maker = iota // a file without a name, then linked
	makeNamed                // a private name, then a rename that never replaces
	makePlain                // exclusive creation, as fs-safe does; no witness
)

// device is what was learnt about a file system.
type device struct {
	mu  sync.Mutex
	how maker
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
