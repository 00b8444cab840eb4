package caproot

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/caproot/caproot/pathsafe"
)

// Budgets of one resolution.
const (
	maxLinks   = 40      // MAXSYMLINKS of Linux (include/linux/namei.h)
	maxSteps   = 1 << 16 // components, those of link targets included
	maxPending = 1 << 18 // bytes of path still to walk after a link was spliced in
	maxHeld    = 48      // ancestors held open, at most; an older one is found again by name
	maxRaces   = 256     // retries when the file system changes under a resolution
)

// step is a directory that a walk has entered.
type step struct {
	dir  handle // noHandle when it was let go to bound the handles of a deep walk
	name string
}

// walker resolves a path one component at a time. It holds the directories it
// came through, so ".." is the real parent, whatever is renamed meanwhile, and
// link targets are walked as text of the same kind.
//
// It is a value on the stack of the verb that uses it; close it after use.
type walker struct {
	sys     system
	root    handle
	stay    bool   // do not leave the mount
	mount   uint64 // of the root
	profile pathsafe.Profile
	links   LinkRule
	held    int         // ancestors held open
	making  bool        // missing directories are made
	makeDir fs.FileMode // with this mode,
	exact   bool        // whatever the umask,
	durable bool        // and flushed, with the directory they are in
	maker   maker       // is asked before each; nil when nobody is
	goal    string      // the name that will be looked for where the walk ends
	deny    *denyTrail  // nil when nothing is denied

	rest    string  // still to walk
	mustDir bool    // the target of the last link ended in a separator
	tail    int     // 1 + length of rest where the first link's target ends; 0: no link yet
	depth   int     // directories entered:
	first   [8]step // the first of them, so that most walks allocate nothing,
	further []step  // and the rest
	nlink   int
	steps   int
}

// here is the directory the walk stands in.
func (w *walker) here() handle {
	if w.depth > 0 {
		return w.at(w.depth - 1).dir
	}
	return w.root
}

// at is the i-th directory entered.
func (w *walker) at(i int) *step {
	if i < len(w.first) {
		return &w.first[i]
	}
	return &w.further[i-len(w.first)]
}

// toLeaf walks until one component is left and returns it unresolved, or ""
// when the path ended in a directory, which is here().
func (w *walker) toLeaf() (leaf string, err error) {
	for {
		name, rest := pathsafe.Next(w.rest, w.profile)
		w.rest = rest
		if name == "" {
			return "", nil
		}
		if w.steps++; w.steps > maxSteps {
			return "", because(ErrTooLarge, "path has too many components")
		}
		if name == ".." {
			if err := w.up(); err != nil {
				return "", err
			}
			continue
		}
		if next, _ := pathsafe.Next(rest, w.profile); next == "" {
			return name, nil
		}
		if err := w.enter(name); err != nil {
			return "", err
		}
	}
}

// enter opens the directory name in here(), following links as the rule says.
func (w *walker) enter(name string) error {
	if err := w.admitName(name); err != nil {
		return err
	}
	for range maxRaces {
		dir, err := w.sys.openDir(w.here(), name)
		switch {
		case err == nil:
			return w.push(dir, name)
		case maybeLink(err):
			if err = w.follow(name); err != errNotLink {
				return err
			}
			// Not a link now. If it is not a directory either, that is the answer.
			st, serr := w.sys.stat(w.here(), name, false)
			if serr == nil && !st.isDir() && !st.isLink() {
				return syscall.ENOTDIR
			}
			if serr != nil && !errors.Is(serr, fs.ErrNotExist) {
				return serr
			}
		case w.making && errors.Is(err, fs.ErrNotExist):
			if w.inTarget() {
				return because(ErrSymlink, "symbolic link leads to what does not exist")
			}
			if err = w.make(name); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return ErrUnstable
}

// push makes dir, just opened as name, the directory the walk stands in.
func (w *walker) push(dir handle, name string) error {
	if w.stay || w.deny != nil {
		if err := w.admitEntered(dir, name); err != nil {
			w.sys.close(dir)
			return err
		}
	}
	if w.depth >= w.held {
		if old := w.at(w.depth - w.held); old.dir != noHandle {
			w.sys.close(old.dir)
			old.dir = noHandle
		}
	}
	if n := w.depth - len(w.first); n >= 0 {
		w.further = append(w.further[:n], step{dir, name})
	} else {
		w.first[w.depth] = step{dir, name}
	}
	w.depth++
	return nil
}

// admitEntered decides on a directory, just opened as name, by its mount and by
// what is denied.
func (w *walker) admitEntered(dir handle, name string) error {
	st, err := w.sys.stat(dir, "", w.stay)
	switch {
	case err != nil:
		return err
	case w.stay && !st.onMount(w.mount):
		return ErrMount
	case w.deny != nil:
		return w.admitDir(dir, name, &st)
	}
	return nil
}

// up goes to the parent the walk came through.
func (w *walker) up() error {
	if w.depth == 0 {
		if w.links == LinksResolveInRoot {
			return nil
		}
		return ErrEscape
	}
	w.sys.close(w.here())
	if w.depth--; w.depth > 0 && w.here() == noHandle {
		return w.regain()
	}
	return nil
}

// regain opens the directories of the stack again from the root, by the names
// they had. None of them is a link; should one be by now, that is an error, so
// the result is inside whatever happened.
func (w *walker) regain() error {
	names := make([]string, w.depth)
	for i := range names {
		names[i] = w.at(i).name
	}
	w.unwind()
	for _, name := range names {
		dir, err := w.sys.openDir(w.here(), name)
		if err != nil {
			return because(ErrChanged, "a directory of the path was replaced")
		}
		if err := w.push(dir, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) unwind() {
	for ; w.depth > 0; w.depth-- {
		if dir := w.here(); dir != noHandle {
			w.sys.close(dir)
		}
	}
}

func (w *walker) close() { w.unwind() }

// release takes here() out of the walker, for the caller to close.
func (w *walker) release() handle {
	top := w.at(w.depth - 1)
	dir := top.dir
	top.dir = noHandle
	return dir
}

// make creates a missing directory. Another maker may be first; who enters
// what it finds decides nothing by who made it.
func (w *walker) make(name string) error {
	if err := w.admitMade(name); err != nil {
		return err
	}
	if w.leavesRoot() {
		return ErrEscape
	}
	if err := w.admitPath(name); err != nil {
		return err
	}
	if w.maker != nil {
		if err := w.maker.permitMkdir(place{dir: w.here(), leaf: name, parent: w.canonical()}); err != nil {
			return err
		}
	}
	err := w.sys.mkdir(w.here(), name, w.makeDir)
	if w.maker != nil {
		w.maker.settleFile(err == nil)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && w.exact {
		err = w.setDirMode(name)
	}
	if err == nil && w.durable {
		if err = w.sys.sync(w.here()); noDirSync(err) || err == errPartSync {
			err = nil
		}
	}
	return err
}

// leavesRoot looks ahead from a directory about to be made, so that a path that
// ends outside leaves nothing behind. It sees as far as text tells: what is
// below a new directory is new, and ".." leads back the way the walk came. From
// an existing directory on only the walk knows.
func (w *walker) leavesRoot() bool {
	if w.links == LinksResolveInRoot {
		return false
	}
	made := w.depth + 1
	depth := made
	for rest := w.rest; ; {
		var name string
		name, rest = pathsafe.Next(rest, w.profile)
		switch {
		case name == "":
			return false
		case name == "..":
			if depth--; depth < 0 {
				return true
			}
		case depth < made:
			return false
		default:
			depth++
		}
	}
}

// setDirMode gives a directory just made the mode that the umask cut. Its name
// may lead to another by now, or to a mount of one: what has permissions that
// were never asked for is not the one that was made.
func (w *walker) setDirMode(name string) error {
	dir, err := w.sys.openDir(w.here(), name)
	if err != nil {
		return err
	}
	defer w.sys.close(dir)
	st, err := w.sys.stat(dir, "", w.stay)
	switch {
	case err != nil:
		return err
	case w.stay && !st.onMount(w.mount):
		return ErrMount
	case st.mode.Perm()&^w.makeDir != 0 && !sameMode(st.mode.Perm(), w.makeDir):
		return because(ErrChanged, "the new directory was replaced")
	}
	return setMode(w.sys, dir, st.mode&allModes, w.makeDir)
}

// checkMount refuses an object just opened that is on another mount.
func (w *walker) checkMount(object handle) error {
	st, err := w.sys.stat(object, "", true)
	if err != nil {
		return err
	}
	if !st.onMount(w.mount) {
		return ErrMount
	}
	return nil
}

// canonical is the path of here() below the root; "" is the root.
func (w *walker) canonical() string {
	if w.depth == 0 {
		return ""
	}
	var b strings.Builder
	for i := range w.depth {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(w.at(i).name)
	}
	return b.String()
}

func joinCanonical(parent, leaf string) string {
	if parent == "" {
		return leaf
	}
	return parent + "/" + leaf
}
