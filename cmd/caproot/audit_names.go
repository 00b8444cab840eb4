package main

import (
	"context"
	"hash/maphash"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
)

// collisions notices names of a directory that are one name where case is
// folded or Unicode normalised. It keeps hashes, and reads a directory again
// when two of them are equal.
type collisions struct {
	seed maphash.Seed
	open []*directoryNames // the way from the root, that directory first
}

type directoryNames struct {
	hashes map[uint64]struct{}
	twice  map[uint64]struct{}
	path   string // set with twice
}

func newCollisions() collisions { return collisions{seed: maphash.MakeSeed()} }

func (c *collisions) hash(name string) uint64 { return maphash.String(c.seed, pathsafe.Key(name)) }

// add notes an entry and returns the directories that the walk has left before
// it, if they need another look. A walk depth first leaves everything deeper
// than an entry when it comes to it.
func (c *collisions) add(e caproot.Entry) []*directoryNames {
	left := c.close(e.Depth())
	for len(c.open) < e.Depth() {
		c.open = append(c.open, &directoryNames{hashes: map[uint64]struct{}{}})
	}
	d, h := c.open[e.Depth()-1], c.hash(e.Name())
	if _, there := d.hashes[h]; !there {
		d.hashes[h] = struct{}{}
		return left
	}
	if d.twice == nil {
		d.twice, d.path = map[uint64]struct{}{}, "."
		if dir, found := strings.CutSuffix(e.Path(), "/"+e.Name()); found {
			d.path = dir
		}
	}
	d.twice[h] = struct{}{}
	return left
}

// close leaves the directories that are deeper.
func (c *collisions) close(depth int) (left []*directoryNames) {
	for len(c.open) > depth {
		last := c.open[len(c.open)-1]
		c.open = c.open[:len(c.open)-1]
		if last.twice != nil {
			left = append(left, last)
		}
	}
	return left
}

// collided reads directories again and tells the names that collide.
func (a *audit) collided(left []*directoryNames) error {
	for _, d := range left {
		first := map[string]string{}
		for e, err := range a.r.Entries(context.Background(), d.path) {
			if err != nil {
				if err := a.unless(err); err != nil {
					return err
				}
				break
			}
			if _, twice := d.twice[a.names.hash(e.Name())]; !twice {
				continue
			}
			other, there := first[pathsafe.Key(e.Name())]
			if !there {
				first[pathsafe.Key(e.Name())] = e.Path()
				continue
			}
			f := flaw{Finding: nameCollision, label: labelOf(e.Path())}
			f.Other, f.OtherB64 = labelOf(other).fields()
			if err := a.tell(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileKey is the number of a file on the root's mount.
type fileKey struct{ dev, ino uint64 }

// multiple is a file with more names than were seen so far.
type multiple struct {
	name         string
	links, found uint64
}

// count notes a name of a file that has several.
func (a *audit) count(e caproot.Entry, info fs.FileInfo) error {
	key, links, err := linksOf(a.r, e, info)
	if err != nil {
		return a.unless(err)
	}
	if links < 2 {
		return nil
	}
	l := a.links[key]
	if l == nil {
		l = &multiple{name: e.Path()}
		a.links[key] = l
	}
	l.links = links
	if l.found++; l.found >= l.links {
		delete(a.links, key)
	}
	return nil
}

// outside tells the files of which names were not seen.
func (a *audit) outside() error {
	byName := func(a, b *multiple) int { return strings.Compare(a.name, b.name) }
	for _, l := range slices.SortedFunc(maps.Values(a.links), byName) {
		if err := a.tell(flaw{Finding: hardlinkOutside, label: labelOf(l.name), Links: l.links, Found: l.found}); err != nil {
			return err
		}
	}
	return nil
}
