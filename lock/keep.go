package lock

import (
	"errors"
	"io/fs"
)

// keptRecord is a record between two acquisitions. It lies under its private
// name and is not locked: who waited for it must see that it was let go.
type keptRecord struct {
	c *candidate
	p place
}

// maxKept bounds the records kept in one directory.
const maxKept = 64

// takeKept returns a kept record of the directory, locked again, or nil. One
// that a late waiter or a sweep has locked is given up: waiting for it could
// take turns with the waiter for ever.
func (d *domain) takeKept(p *place) *candidate {
	for {
		d.mu.Lock()
		all := d.kept[p.id]
		if len(all) == 0 {
			d.mu.Unlock()
			return nil
		}
		k := all[len(all)-1]
		d.kept[p.id] = all[:len(all)-1]
		d.mu.Unlock()
		k.p.close()
		if flock(k.c.file, false) == nil {
			return k.c
		}
		p.dir.RemoveSame(k.c.private, k.c.file)
		k.c.file.Close()
	}
}

// keep moves a record that is held out of sight instead of removing it.
func (h *hold) keep() error {
	c, p := h.record, &h.place
	err := p.dir.MoveSame(p.leaf, c.hidden, c.file)
	if err != nil {
		err = p.refused(err, p.leaf)
	}
	switch {
	case errors.Is(err, fs.ErrExist) || errors.Is(err, ErrUnsupported):
		return c.remove(p, p.leaf)
	case gone(err):
		c.abandon()
		return errors.Join(err, p.putBack(c.hidden))
	case err != nil:
		return err
	}
	c.private = c.hidden
	funlock(c.file)
	d := h.domain
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept[p.id]) >= maxKept {
		return c.discard(p)
	}
	d.kept[p.id] = append(d.kept[p.id], keptRecord{c, *p})
	p.owned = false
	return nil
}

// dropKept removes all kept records.
func (d *domain) dropKept() error {
	d.mu.Lock()
	var all []keptRecord
	for dir, records := range d.kept {
		all = append(all, records...)
		delete(d.kept, dir)
	}
	d.mu.Unlock()
	var failed []error
	for _, k := range all {
		failed = append(failed, k.c.discard(&k.p))
		k.p.close()
	}
	return errors.Join(failed...)
}

// putBack gives a record that was moved aside by mistake its name again. Where
// another one has the name by now, it stays aside, for people to see.
func (p *place) putBack(aside string) error {
	f, _, err := p.openNamed(aside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was moved
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = p.dir.MoveSame(aside, p.leaf, f)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
