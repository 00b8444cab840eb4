package lock

import (
	"strings"

	"github.com/caproot/caproot"
)

// Sweep removes from the directory name what processes left in it that died
// while they made a record under a private name, or kept one, and returns how
// many there were. A private record that is in use is locked and stays; one
// that its owner keeps for later may go, and is made again.
func Sweep(r *caproot.Root, name string) (removed int, err error) {
	dir, err := r.OpenRoot(name)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(".")
	if err != nil {
		return 0, err
	}
	p := place{dir: dir}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), privatePrefix) && p.sweep(e.Name()) {
			removed++
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
