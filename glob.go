package caproot

import (
	"context"
	"path"
	"slices"
	"strings"
)

var verbGlob = verb{name: "glob"}

// Glob returns the names below the root that match pattern, in lexical order of
// each directory, or nil. The syntax of a component is that of path.Match; a
// component "**" is any number of directories, none too, and at the end of a
// pattern everything below. Components before the
// first special character are found as by ReadDir; of those after it, links are
// matched and not followed. A pattern that ends in "/" or "/." matches directories.
//
// It returns path.ErrBadPattern for a malformed pattern, and unlike fs.Glob an
// error when a directory that may hold a match cannot be read. One that a grant
// denies is passed over, unless it is named before the first special character.
func (r *Root) Glob(pattern string) ([]string, error) {
	parts := strings.Split(pattern, "/")
	fixed := 0
	for ; fixed < len(parts) && !strings.ContainsAny(parts[fixed], `*?[\`); fixed++ {
	}
	wild := parts[fixed:]
	for _, part := range wild {
		if _, err := path.Match(part, ""); err != nil {
			return nil, cause(r.refuse(&verbGlob, pattern, err))
		}
	}
	if fixed == len(parts) {
		if ok, err := r.hasEntry(pattern); !ok {
			return nil, err
		}
		return []string{pattern}, nil
	}
	start := strings.Join(parts[:fixed], "/")
	if fixed == 0 {
		start = "."
	}
	end := wild[len(wild)-1]
	wild = slices.DeleteFunc(wild, func(part string) bool { return part == "" || part == "." })
	return r.globBelow(start, glob{parts: wild, dirs: end == "" || end == "."})
}

// hasEntry reports whether name is there, be it a link that leads nowhere.
func (r *Root) hasEntry(name string) (bool, error) {
	_, err := r.Lstat(name)
	if Code(err) == "not-exist" || Code(err) == "not-dir" {
		return false, nil
	}
	return err == nil, err
}

func (r *Root) globBelow(start string, g glob) (matches []string, err error) {
	o := WalkOptions{Sorted: true, Mounts: r.Policy().Mounts, Filter: g.filter}
	for e, err := range r.Walk(context.Background(), start, o) {
		if c := Code(err); c == "not-exist" || c == "not-dir" {
			return nil, nil // no such start, so nothing matches
		}
		if err != nil {
			return nil, err
		}
		if g.matched(e) {
			matches = append(matches, e.Path())
		}
	}
	return matches, nil
}

// glob matches the entries of a walk. For each directory on the way it knows
// which parts of the pattern may come next.
type glob struct {
	parts []string
	dirs  bool    // matches nothing else
	open  [][]int // by depth: indexes into parts
}

// matched tells what matches from what the walk shows because it did not enter it.
func (g *glob) matched(e Entry) bool {
	return slices.Contains(g.open[e.Depth()], len(g.parts)) && (e.IsDir() || !g.dirs)
}

func (g *glob) filter(e Entry) WalkStep {
	depth := e.Depth()
	if len(g.open) == 0 {
		g.open = append(g.open, g.spread(nil, 0))
	}
	g.open = g.open[:depth]
	var next []int
	for _, i := range g.open[depth-1] {
		if i == len(g.parts) {
			continue
		}
		if last := i == len(g.parts)-1; g.parts[i] == "**" {
			if next = g.spread(next, i); last {
				next = g.spread(next, i+1)
			}
		} else if ok, _ := path.Match(g.parts[i], e.name); ok {
			next = g.spread(next, i+1)
		}
	}
	g.open = append(g.open, next)
	matched, more := false, false
	for _, i := range next {
		matched, more = matched || i == len(g.parts), more || i < len(g.parts)
	}
	switch {
	case !more && !matched:
		return WalkSkipTree
	case !matched:
		return WalkSkip
	case !more && e.IsDir():
		return WalkLeaf
	}
	return WalkTake
}

// spread adds the part i to those that may come next, and what comes after it
// if it may be nothing. A last "**" is at least one component.
func (g *glob) spread(next []int, i int) []int {
	for ; ; i++ {
		for _, known := range next {
			if known == i {
				return next
			}
		}
		next = append(next, i)
		if i >= len(g.parts)-1 || g.parts[i] != "**" {
			return next
		}
	}
}
