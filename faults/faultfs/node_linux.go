package faultfs

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is an object. kept is what a loss of power leaves of it; changes are
// those of a directory since its last flush.
type node struct {
	id                  uint64 // by which it was looked up last
	generation          uint64
	mode, nlink         uint32
	owner               fuse.Owner
	atime, mtime, ctime time.Time
	target              string
	data                []byte
	children            map[string]*node

	keptData []byte
	kept     map[string]*node
	changes  []change
}

// change is one step of a directory, whole or not at all: names and what they
// have after it, nil for nothing.
type change map[string]*node

var generations atomic.Uint64

func newNode(mode uint32, owner fuse.Owner) *node {
	now := time.Now()
	n := &node{mode: mode, nlink: 1, owner: owner, atime: now, mtime: now, ctime: now}
	// The kernel keeps 32 bits.
	n.generation = generations.Add(1)
	if n.isDir() {
		n.nlink = 2
		n.children, n.kept = map[string]*node{}, map[string]*node{}
	}
	return n
}

func (n *node) isDir() bool { return n.mode&syscall.S_IFMT == syscall.S_IFDIR }

func (n *node) resize(size int) {
	if size <= len(n.data) {
		n.data = n.data[:size]
	} else {
		n.data = append(n.data, make([]byte, size-len(n.data))...)
	}
	n.mtime = time.Now()
}

// enter makes a change of a directory.
func (n *node) enter(c change) {
	for name, child := range c {
		if child == nil {
			delete(n.children, name)
		} else {
			n.children[name] = child
		}
	}
	n.mtime = time.Now()
	n.changes = append(n.changes, c)
}

// flush brings a node to stable storage, a directory with its entries but not
// what they name.
func (n *node) flush() {
	n.keptData = slices.Clone(n.data)
	n.kept = maps.Clone(n.children)
	n.changes = nil
}

// Crash is the file system after a loss of power: of each directory the entries
// of its last flush and some of the changes since then, in order; of each file the
// content of its last flush or what it had. A nil random loses all that was not
// flushed. It is stricter than any journaling file system, and what POSIX promises.
func (f *FS) Crash(random *rand.Rand) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := New(f.o)
	after.root = f.root.crash(random, map[*node]*node{})
	after.number(after.root)
	return after
}

func (n *node) crash(random *rand.Rand, done map[*node]*node) *node {
	if c := done[n]; c != nil {
		return c
	}
	c := newNode(n.mode, n.owner)
	done[n] = c
	c.target, c.data = n.target, slices.Clone(n.keptData)
	if random != nil && random.IntN(2) == 0 {
		c.data = slices.Clone(n.data)
	}
	if n.isDir() {
		entries, changes := maps.Clone(n.kept), n.changes
		if random == nil {
			changes = nil
		} else {
			changes = changes[:random.IntN(len(changes)+1)]
		}
		for _, step := range changes {
			maps.Copy(entries, step)
		}
		for name, child := range entries {
			if child != nil {
				c.children[name] = child.crash(random, done)
			}
		}
	}
	c.flush()
	return c
}

// FlushAll brings everything to stable storage.
func (f *FS) FlushAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.root.flushAll()
}

func (n *node) flushAll() {
	n.flush()
	for _, child := range n.children {
		child.flushAll()
	}
}

// Files has the content of every file by its path, and "/" for every directory
// by its path with a slash after it. It makes no request.
func (f *FS) Files() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := map[string]string{}
	f.root.files("", files)
	return files
}

func (n *node) files(prefix string, files map[string]string) {
	for name, child := range n.children {
		switch path := strings.TrimPrefix(prefix+"/"+name, "/"); {
		case child.isDir():
			files[path+"/"] = "/"
			child.files(path, files)
		case child.target != "":
			files[path] = "-> " + child.target
		default:
			files[path] = string(child.data)
		}
	}
}
