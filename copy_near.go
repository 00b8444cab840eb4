package caproot

import (
	"strings"
	"sync"

	"github.com/caproot/caproot/pathsafe"
)

const (
	nearDepth = 32 // components that are resolved anew for each name
	nearHeld  = 32 // directories below them that are held
)

// nearDirs holds the directories on the way to where a copy works, so that a name
// deep in a tree does not cost its whole path: those below nearDepth, each opened in
// the one above it. Of a way with more than nearHeld the deepest are held, and one
// that was let go is found again as the parent of its child.
type nearDirs struct {
	mu     sync.Mutex
	path   string // of the last level
	levels []nearDir
}

type nearDir struct {
	end int    // of its path in that of the last level
	dir handle // noHandle when it was let go
	st  status // from then
	at  denyAt
}

// nearby tells whether the place is found from what is held. A root that wants the
// kernel's word resolves each path whole.
func (c *call) nearby() bool {
	return c.r.near != nil && c.shape.Clean && !c.shape.DotDot && c.r.policy.Containment == Walked &&
		strings.Count(c.shape.Parent, "/") >= nearDepth
}

// toNear is toParent from the nearest directory that is held.
func (c *call) toNear() error {
	n, path := c.r.near, c.shape.Parent
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leave(c, path)
	for n.path != path {
		if err := n.enter(c, path); err != nil {
			return err
		}
	}
	top := &n.levels[len(n.levels)-1]
	dir, err := c.r.sys.dup(top.dir)
	if err != nil {
		return err
	}
	c.dir, c.owned, c.containment, c.parent = dir, true, Walked, path
	if c.r.deny != nil {
		c.g.at = top.at
	}
	return c.admitLeaf()
}

// leave leaves the levels that are not on the way to path.
func (n *nearDirs) leave(c *call, path string) {
	common := 0
	for common < min(len(path), len(n.path)) && path[common] == n.path[common] {
		common++
	}
	for len(n.levels) > 0 {
		end := n.levels[len(n.levels)-1].end
		if end < common || end == common && (end == len(path) || path[end] == '/') {
			return
		}
		n.ascend(c)
	}
}

// ascend leaves the last level. When the one above, which was let go, is not found
// again, all are left.
func (n *nearDirs) ascend(c *call) {
	last := len(n.levels) - 1
	child := n.levels[last].dir
	n.levels = n.levels[:last]
	path := n.path
	if n.path = ""; last > 0 {
		up := &n.levels[last-1]
		if up.dir == noHandle && !up.regain(c.r.sys, child) {
			n.levels = n.levels[:0] // the others were let go before
		} else {
			n.path = path[:up.end]
		}
	}
	c.r.sys.close(child)
}

func (d *nearDir) regain(sys system, child handle) bool {
	h, err := sys.open(child, "..", pathOnly|directoryOnly, 0)
	if err != nil {
		return false
	}
	st, err := sys.stat(h, "", true)
	if err != nil || !st.sameObject(&d.st) {
		sys.close(h)
		return false
	}
	d.dir = h
	return true
}

// enter opens the next directory on the way to path: that at nearDepth from the
// root, each further one in the last.
func (n *nearDirs) enter(c *call, path string) error {
	w := c.walker()
	defer w.close()
	end, steps := -1, nearDepth
	if len(n.levels) > 0 {
		top := n.levels[len(n.levels)-1]
		end, steps, w.root = top.end, 1, top.dir
		if w.deny != nil {
			w.deny.at[0] = top.at
		}
	}
	for range steps {
		name, _ := pathsafe.Next(path[end+1:], c.r.policy.Names)
		if err := w.enter(name); err != nil {
			return err
		}
		end += 1 + len(name)
	}
	n.letGo(c.r.sys)
	n.levels = append(n.levels, nearDir{end: end, dir: w.release(), at: w.denyAt()})
	n.path = path[:end]
	return nil
}

// letGo closes the oldest directory held when there are as many as may be.
func (n *nearDirs) letGo(sys system) {
	i := len(n.levels) - nearHeld
	if i < 0 || n.levels[i].dir == noHandle {
		return
	}
	old := &n.levels[i]
	var err error
	if old.st, err = sys.stat(old.dir, "", true); err != nil {
		old.st = status{} // nothing is the same
	}
	sys.close(old.dir)
	old.dir = noHandle
}

func (n *nearDirs) close(sys system) {
	for _, l := range n.levels {
		if l.dir != noHandle {
			sys.close(l.dir)
		}
	}
	n.levels, n.path = nil, ""
}
