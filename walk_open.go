package caproot

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/caproot/caproot/pathsafe"
)

// walking is a walk at work; its workers share it.
type walking struct {
	c     *call
	o     WalkOptions
	done  <-chan struct{} // nil: nobody cancels
	cause func() error
	stay  bool   // do not enter mount points
	mount uint64 // of the start
	read  atomic.Int64
	seen  *visited // with FollowLinks
}

const openForList = forRead | directoryOnly | nonBlocking

// unlisted is the entry of a start that could not be opened.
func (r *Root) unlisted(name string) Entry {
	d := &walkDir{r: r, path: name, h: noHandle}
	d.life.close()
	return Entry{dir: d, name: ".", mode: fs.ModeIrregular}
}

// begin opens the start of the walk, which must be start unless that is nil.
func (w *walking) begin(start *status) (*walkDir, error) {
	c := w.c
	w.stay = c.r.policy.Mounts == MountsStay || w.o.Mounts == MountsStay
	w.o.FollowLinks = w.o.FollowLinks && c.links() >= LinksFollow
	h, err := c.open(openForList, 0)
	if start != nil && err != nil && (errors.Is(err, fs.ErrNotExist) || maybeLink(err)) {
		err = errSourceReplaced
	}
	if err != nil {
		return nil, err
	}
	st, err := c.r.sys.stat(h, "", true)
	if err == nil && start != nil && !st.sameNumbers(start) {
		err = errSourceReplaced
	}
	if err == nil && w.o.FollowLinks {
		w.seen = &visited{set: map[visit]bool{}}
		err = w.markAncestors(&st)
	}
	if err != nil {
		c.r.sys.close(h)
		return nil, err
	}
	w.mount = st.mount
	first := &walkDir{r: c.r, h: h}
	if c.r.deny != nil {
		if first.at, err = c.positionOf(h); err != nil {
			c.r.sys.close(h)
			return nil, err
		}
	}
	if c.shape.Path != "." {
		first.path = pathsafe.Canonical(c.shape.Path)
	}
	first.users.Store(1)
	return first, nil
}

// markAncestors makes the start and the directories above it, up to the root,
// ones that a link does not lead into again.
func (w *walking) markAncestors(start *status) error {
	w.seen.first(start)
	c := w.c
	path := c.walker()
	defer path.close()
	path.rest = c.shape.Path
	for {
		leaf, err := path.toLeaf()
		if err != nil {
			return err
		}
		if leaf == "" {
			break
		}
		if err := path.enter(leaf); err != nil {
			return err
		}
	}
	for {
		st, err := c.r.sys.stat(path.here(), "", true)
		if err != nil {
			return err
		}
		w.seen.first(&st)
		if path.depth == 0 {
			return nil
		}
		if err := path.up(); err != nil {
			return err
		}
	}
}

// visited remembers the directories that a walk entered, whatever mount they
// were seen on. The birth time tells a directory from a later one under its number.
type visited struct {
	mu  sync.Mutex
	set map[visit]bool
}

type visit struct {
	dev, ino uint64
	birth    stamp
}

// first reports whether the directory was not entered before.
func (v *visited) first(st *status) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := visit{st.dev, st.ino, st.birth}
	if v.set[key] {
		return false
	}
	v.set[key] = true
	return true
}

// note keeps the first error of the walk for those who are told.
func (w *walking) note(err error) {
	if g := w.c.g; err != nil && g != nil && g.outcome == nil {
		g.outcome = cause(err)
	}
}

// held is how many directories a strand holds; one that follows links leaves as
// many to the way along a link.
func (w *walking) held() int {
	if w.seen != nil {
		return maxHeld / 2
	}
	return maxHeld
}

// deepest reports whether nothing may be below a directory at this depth.
func (w *walking) deepest(depth int) bool { return w.o.MaxDepth > 0 && depth >= w.o.MaxDepth }

// fatal reports whether the walk ends with this error.
func (w *walking) fatal(err error) bool {
	return !w.o.InlineErrors || errors.Is(err, errBudget) || w.canceled() != nil
}

var errBudget = because(ErrTooLarge, "the walk's budget of entries or depth is used up")

func (w *walking) canceled() error {
	select {
	case <-w.done:
		return w.cause()
	default:
		return w.c.r.tenure.holds()
	}
}

// errSeen is openDir's answer for what a walk does not enter through a link.
var errSeen = errors.New("seen before, or no directory")

func (w *walking) openDir(e Entry) (h handle, at denyAt, err error) {
	if e.mode.IsDir() {
		h, err = w.openChild(e)
	} else if h, at, err = w.openPath(e.Path()); err == syscall.ENOTDIR || errors.Is(err, fs.ErrNotExist) {
		err = errSeen
	}
	if err != nil || w.seen == nil && w.c.r.deny == nil {
		return h, at, err
	}
	st, err := w.c.r.sys.stat(h, "", true)
	if err == nil && w.seen != nil && !w.seen.first(&st) {
		err = errSeen
	}
	if err == nil && w.c.r.deny != nil && e.mode.IsDir() {
		at, err = w.c.r.deny.list.object(w.c.r.sys, e.dir.at.name(e.name), h, &st)
	}
	if err != nil {
		w.c.r.sys.close(h)
		return noHandle, at, err
	}
	return h, at, nil
}

// denied tells whether a grant withholds the entry, by its name or as an object.
func (e *Entry) denied() bool {
	if e.dir.r.deny == nil {
		return false
	}
	in := e.place()
	return errors.Is(in.admitLeaf(), ErrPolicy)
}

// openChild opens a directory relative to the one that listed it.
func (w *walking) openChild(e Entry) (h handle, err error) {
	r := w.c.r
	// EXDEV is a mount, or a directory that was moved away while it was opened.
	err = syscall.EXDEV
	if r.beneath != nil {
		rule := noSymlinks
		if w.stay {
			rule |= noMounts
		}
		h, err = r.beneath.openBeneath(e.dir.h, e.name, openForList, 0, rule)
	}
	if err == syscall.EXDEV {
		h, err = r.sys.open(e.dir.h, e.name, openForList, 0)
		if err == nil && w.stay {
			if err = w.sameMount(h); err != nil {
				r.sys.close(h)
				return noHandle, err
			}
		}
	}
	if err != nil && maybeLink(err) {
		return noHandle, &detail{ErrChanged, "a directory was replaced while it was walked", err}
	}
	return h, err
}

func (w *walking) sameMount(h handle) error {
	st, err := w.c.r.sys.stat(h, "", true)
	if err == nil && !st.onMount(w.mount) {
		err = ErrMount
	}
	return err
}

// openPath resolves a path of the walk from the root, which links need. Several
// workers may do so: each has a call of its own.
func (w *walking) openPath(path string) (h handle, at denyAt, err error) {
	c := call{r: w.c.r, verb: w.c.verb, name: path, held: w.held()}
	if w.c.g != nil {
		c.g = new(grantedCall)
	}
	defer c.leavePlace()
	if c.shape, err = pathsafe.Parse(path, c.r.policy.Names); err != nil {
		return noHandle, at, nameError(err)
	}
	h, err = c.open(openForList, 0)
	if err != nil {
		return h, at, err
	}
	at, err = c.positionOf(h)
	if err == nil && w.stay {
		err = w.sameMount(h)
	}
	if err != nil {
		c.r.sys.close(h)
		return noHandle, at, err
	}
	return h, at, nil
}
