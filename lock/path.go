package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	dir, leaf, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	inDir, record := dir, leaf+recordSuffix
	if o.LockPath != "" {
		if inDir, record, err = splitPath(o.LockPath); err != nil {
			return nil, err
		}
		q.key = pathKey(dir, leaf)
	}
	r, err := caproot.Open(inDir, pathPolicy())
	if errors.Is(err, fs.ErrNotExist) && o.LockPath == "" {
		evaluated := request{ctx: ctx, o: o}
		if q.payload, err = evaluated.evaluate(); err != nil {
			return nil, err
		}
		if err = os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		r, err = caproot.Open(dir, pathPolicy())
	}
	if err != nil {
		return nil, err
	}
	q.r, q.target = r, leaf
	if o.LockPath != "" {
		q.target, q.o.LockPath = dir+leaf, record
	}
	l, err := m.acquire(q, wait)
	if err != nil {
		r.Close()
	}
	return l, err
}

// splitPath makes a path absolute and takes its last component off. ".." is left
// to the system: taken out as text it would not be the parent behind a link.
// On Windows the system itself takes it out as text.
func splitPath(path string) (dir, leaf string, err error) {
	bad := &fs.PathError{Op: "lock", Path: path, Err: caproot.ErrName}
	if path == "" {
		return "", "", bad
	}
	if filepath.Separator == '\\' {
		if path, err = filepath.Abs(path); err != nil {
			return "", "", err
		}
	} else if path[0] != '/' {
		wd, err := os.Getwd()
		if err != nil {
			return "", "", err
		}
		path = wd + "/" + path
	}
	dir, leaf = filepath.Split(strings.TrimRight(path, string(filepath.Separator)))
	if leaf == "" || leaf == "." || leaf == ".." {
		return "", "", bad
	}
	return dir, leaf, nil
}

// pathKey finds the key of a target whose record lies elsewhere.
func pathKey(dir, leaf string) key {
	r, err := caproot.Open(dir, caproot.ReadOnly())
	if err != nil {
		return key{text: filepath.Clean(dir + leaf)}
	}
	defer r.Close()
	id, err := idOf(r)
	if err != nil || !id.known() {
		return key{text: filepath.Clean(dir + leaf)}
	}
	return key{dir: id, leaf: leaf}
}
