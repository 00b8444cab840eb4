package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caproot/caproot"
)

// pathPolicy is for the directory of a lock that was acquired by path.
func pathPolicy() caproot.Policy {
	p := caproot.Workspace()
	p.Links, p.MutationLinks = caproot.LinksRefuse, caproot.LinksRefuse
	p.Hardlinks = caproot.HardlinksAllow // a record with two names has an error of its own
	p.Durability = caproot.DurabilityNone
	return p
}

func (m *Manager) acquirePath(ctx context.Context, path string, o Options, wait bool) (Lock, error) {
	q := request{ctx: ctx, o: o, byPath: true}
	o = o.over(&m.defaults)
	if err := o.complete(); err != nil {
		return nil, err
	}
	target, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	record := target + recordSuffix
	if o.LockPath != "" {
		if record, err = filepath.Abs(o.LockPath); err != nil {
			return nil, err
		}
		q.key = pathKey(target)
	}
	r, err := caproot.Open(filepath.Dir(record), pathPolicy())
	if errors.Is(err, fs.ErrNotExist) && o.LockPath == "" {
		evaluated := request{ctx: ctx, o: o}
		if q.payload, err = evaluated.evaluate(); err != nil {
			return nil, err
		}
		if err = os.MkdirAll(filepath.Dir(record), 0o777); err != nil {
			return nil, err
		}
		r, err = caproot.Open(filepath.Dir(record), pathPolicy())
	}
	if err != nil {
		return nil, err
	}
	q.r, q.target = r, filepath.Base(target)
	if o.LockPath != "" {
		q.target, q.o.LockPath = target, filepath.Base(record)
	}
	l, err := m.acquire(q, wait)
	if err != nil {
		r.Close()
	}
	return l, err
}

// pathKey finds the key of a target whose record lies elsewhere.
func pathKey(target string) key {
	r, err := caproot.Open(filepath.Dir(target), caproot.ReadOnly())
	if err != nil {
		return key{text: target}
	}
	defer r.Close()
	id, err := r.Identity()
	if err != nil {
		return key{text: target}
	}
	return key{dir: recordID{id.Dev, id.Ino}, leaf: filepath.Base(target)}
}
