package lock

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/caproot/caproot"
)

// Sweep removes from the directory name what processes left in it that died
// while they made a record under a private name, or kept one, or evicted the
// record of a lease, and returns how many there were. A private record that is
// in use is locked and stays; one that its owner keeps for later may go, and is
// made again. What was moved aside by an eviction goes under the guard of its
// lock, and stays while another process has that.
func Sweep(r *caproot.Root, name string) (removed int, err error) {
	if r == nil {
		return 0, errNoRoot("sweep", name)
	}
	dir, err := r.OpenRoot(name)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(".")
	if err != nil {
		return 0, err
	}
	id, err := idOf(dir)
	if err != nil {
		return 0, err
	}
	p := place{dir: dir, id: id}
	for _, e := range entries {
		done := false
		switch leaf, aside := evictedOf(e.Name()); {
		case strings.HasPrefix(e.Name(), privatePrefix):
			done = p.sweep(e.Name())
		case aside && id.known():
			p.leaf, p.lockPath, p.guard = leaf, leaf, leaf+guardSuffix
			done, err = p.sweepEvicted(e.Name())
		}
		if done {
			removed++
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func (p *place) sweep(name string) bool {
	f, o, err := p.openNamed(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if !o.regular || o.foreign() || o.nlink != 1 || flock(f, false) != nil {
		return false
	}
	defer funlock(f)
	return p.dir.RemoveSame(name, f) == nil
}

// sweepEvicted keeps out the evictions under way, which have the guard from
// before a record is moved aside until it is removed or put back.
func (p *place) sweepEvicted(name string) (done bool, err error) {
	guard, err := p.publishGuard()
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if p.isRecord(name) {
		done = p.sweep(name)
	}
	return done, p.removeGuard(guard)
}

// isRecord tells a record of this package from a file whose name only looks so.
func (p *place) isRecord(name string) bool {
	f, o, err := p.openNamed(name)
	if err != nil {
		return false
	}
	defer f.Close()
	raw, err := readRecord(f, o.size)
	if err != nil {
		return false
	}
	_, ok := parseLease(raw)
	_, _, marked := splitRecord(raw)
	return ok || marked
}

// evictedOf returns the name that a record had before it was evicted to name.
func evictedOf(name string) (leaf string, ok bool) {
	i := strings.LastIndex(name, evictInfix)
	if i <= 0 || len(name)-i-len(evictInfix) != evictRandom {
		return "", false
	}
	return name[:i], true
}
