package caproot

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"github.com/caproot/caproot/identity"
)

// The verbs of this file take an open file as evidence. While it is open the
// kernel cannot give its number to another object, so a comparison is proof,
// and cheaper than a receipt. The file must stay open during the call.

var (
	verbIdentity      = verb{name: "identity"}
	verbLexists       = verb{name: "lexists", needs: List}
	verbCheckSame     = verb{name: "checksame", needs: List, changes: true}
	verbRemoveSame    = verb{name: "removesame", needs: Remove, changes: true}
	verbMoveSame      = verb{name: "movesame", needs: Move, changes: true, relinks: true}
	verbCreateUnnamed = verb{name: "createunnamed", needs: Create | Read, changes: true}
	verbNameUnnamed   = verb{name: "nameunnamed", needs: Create, changes: true, makes: true}
	verbOpenParent    = verb{name: "openparent", needs: List, changes: true, traced: true}
)

// Identity returns the evidence of which directory the root is.
func (r *Root) Identity() (identity.ID, error) {
	var c call
	if err := c.enter(r, &verbIdentity, "."); err != nil {
		return identity.ID{}, err
	}
	defer c.end()
	id, err := r.self()
	return id, c.fail(err)
}

// Numbers returns the device and the file number of the directory, without a
// call of the system. They tell directories apart that are open, no others, and
// are 0 where the system did not say.
func (r *Root) Numbers() (dev, ino uint64, err error) {
	if !r.opened() {
		return 0, 0, &fs.PathError{Op: "numbers", Path: ".", Err: errNoRoot}
	}
	if err := r.life.enter(); err != nil {
		return 0, 0, &fs.PathError{Op: "numbers", Path: ".", Err: err}
	}
	defer r.life.leave()
	return r.dev, r.ino, nil
}

// Lexists is Exists for name itself: a link exists, whatever it leads to.
func (r *Root) Lexists(name string) (bool, error) {
	var c call
	if err := c.begin(r, &verbLexists, name); err != nil {
		return false, err
	}
	defer c.end()
	_, err := c.lstat()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, c.fail(err)
}

// OpenParent opens the directory that holds the last component of name, found
// as a changing verb finds it, as a Root with the same policy. It needs the right
// List. It also returns
// the canonical path of name below r; its last component is the name in the
// directory and need not exist.
func (r *Root) OpenParent(name string) (dir *Root, canonical string, err error) {
	var c call
	if err := c.begin(r, &verbOpenParent, name); err != nil {
		return nil, "", err
	}
	defer c.end()
	if err := c.toParent(); err != nil {
		return nil, "", c.fail(err)
	}
	h := c.dir
	if c.owned {
		c.owned = false
	} else if h, err = r.sys.dup(h); err != nil {
		return nil, "", c.fail(err)
	}
	canonical = c.canonical()
	c.leaf = "." // the place is what is opened
	dir, err = c.subRoot(h, c.parent, r.policy, r.tenure)
	if err != nil {
		return nil, "", c.fail(err)
	}
	return dir, canonical, nil
}

// OpenFileNoFollow is OpenFile without following a link in the last component:
// under every policy that is ErrSymlink, or ErrEscape for an absolute target.
func (r *Root) OpenFileNoFollow(name string, flag int, perm fs.FileMode) (*os.File, error) {
	c := call{noFollow: true}
	how, err := c.beginOpen(r, name, flag)
	if err != nil {
		return nil, err
	}
	defer c.end()
	h, isDir, err := c.openFile(how, perm)
	if err != nil {
		return nil, c.fail(err)
	}
	f, err := c.export(h, isDir, how)
	return f, c.fail(err)
}

// CheckSame returns nil if name itself is the very object that f has open and
// its only name. Otherwise it returns an error that matches ErrChanged, or
// fs.ErrNotExist when nothing has the name.
func (r *Root) CheckSame(name string, f *os.File) error {
	var c call
	if err := c.begin(r, &verbCheckSame, name); err != nil {
		return err
	}
	defer c.end()
	err := c.toParent()
	if err == nil {
		err = c.same(f)
	}
	return c.fail(err)
}

// same compares the leaf of the place with an open file.
func (c *call) same(f *os.File) error {
	mine, err := c.statFile(f)
	if err != nil {
		return err
	}
	return c.holds(&mine)
}

// holds compares the leaf of the place with an object that is open.
func (c *call) holds(mine *status) error {
	named, err := c.leafStatus()
	switch {
	case err != nil:
		return err
	case !named.sameNumbers(mine):
		return because(ErrChanged, "the name has another object")
	case named.nlink != 1 && !named.isDir():
		return &detail{ErrChanged, "the object has another name too", ErrHardlink}
	}
	return nil
}

func (c *call) statFile(f *os.File) (status, error) {
	if noFile(f) {
		return status{}, errNoHandle
	}
	h := handle(f.Fd())
	if h == noHandle {
		return status{}, fs.ErrClosed
	}
	st, err := c.r.sys.stat(h, "", false)
	runtime.KeepAlive(f)
	return st, err
}

// RemoveSame removes name if CheckSame accepts it.
//
// RACE: as with RemoveIf, between the comparison and the removal, one system
// call apart, another process can give the name to another object.
func (r *Root) RemoveSame(name string, f *os.File) error {
	var c call
	if err := c.begin(r, &verbRemoveSame, name); err != nil {
		return err
	}
	defer c.end()
	return c.fail(c.removeSame(f))
}

func (c *call) removeSame(f *os.File) error {
	if err := c.toParent(); err != nil {
		return err
	}
	mine, err := c.statFile(f)
	if err == nil {
		err = c.holds(&mine)
	}
	if err == nil {
		c.judge(&mine)
		err = c.permit(StepRemove, 0)
	}
	if err == nil {
		err = c.r.sys.remove(c.dir, c.leaf, false)
	}
	if errors.Is(err, syscall.EISDIR) && !mine.isDir() {
		err = &detail{ErrChanged, "the name has a directory now", err}
	}
	return err
}

// MoveSame gives the object of f the name to, without ever replacing, if
// CheckSame accepts it under the name from. An existing name is an error that
// matches fs.ErrExist; a file system that cannot refuse to replace is
// ErrUnsupported. It never makes a second name, not even for a moment. If the
// object arrived under its new name is not that of f, the error is ErrChanged.
func (r *Root) MoveSame(from, to string, f *os.File) error {
	var old, c call
	if err := beginBoth(r, &verbMoveSame, &old, &c, from, to); err != nil {
		return err
	}
	defer old.end()
	defer c.end()
	return old.failLink(to, moveSame(&old, &c, f))
}

func moveSame(from, to *call, f *os.File) error {
	if err := toParents(from, to); err != nil {
		return err
	}
	mine, err := from.statFile(f)
	if err == nil {
		err = from.holds(&mine)
	}
	if err == nil {
		err = from.admitRelink(noHandle, &mine, to)
	}
	if err != nil {
		return err
	}
	from.judge(&mine)
	if err := from.permitAt(StepRename, 0, &from.place, &to.place); err != nil {
		return err
	}
	if err := from.r.sys.rename(from.dir, from.leaf, to.dir, to.leaf, noReplace); err != nil {
		if noFlag(err) {
			err = &detail{ErrUnsupported, "no rename that refuses to replace", err}
		}
		return intoItself(to, &mine, err)
	}
	if err := to.holds(&mine); err != nil {
		return &detail{ErrChanged, "the object moved is not the one looked at", err}
	}
	return nil
}

// CreateUnnamed makes a file without a name on the file system of the directory
// dir, open for reading and writing, mode 0600 cut by umask and policy. It is
// gone when it is closed, unless NameUnnamed named it. It returns ErrUnsupported
// where the file system or kernel has no such files.
func (r *Root) CreateUnnamed(dir string) (*os.File, error) {
	var c call
	if err := c.begin(r, &verbCreateUnnamed, dir); err != nil {
		return nil, err
	}
	defer c.end()
	err := c.admitExport(false)
	if err == nil {
		err = c.toDirectory()
	}
	if err == nil {
		err = c.permit(StepStage, 0)
	}
	if err != nil {
		return nil, c.fail(err)
	}
	h, err := r.sys.unnamed(c.dir, 0o600&r.policy.Modes)
	if err != nil {
		return nil, c.fail(lacks(err, "no files without a name"))
	}
	return c.handOut(newFile(h, joinDisplay(r.name, dir)), nil)
}

// lacks turns the answers for a call that is missing into ErrUnsupported.
func lacks(err error, what string) error {
	if notHere(err) && err != syscall.ENOENT {
		return &detail{ErrUnsupported, what, err}
	}
	return err
}

// NameUnnamed gives a file of CreateUnnamed its first name, in one step. An
// existing name is an error that matches fs.ErrExist, and the file stays as it
// is. It returns ErrUnsupported where the kernel does not let the process name
// it, and ErrHardlink for a file that has a name. Nothing is flushed.
func (r *Root) NameUnnamed(f *os.File, name string) error {
	var c call
	if err := c.begin(r, &verbNameUnnamed, name); err != nil {
		return err
	}
	defer c.end()
	return c.fail(c.nameUnnamed(f))
}

func (c *call) nameUnnamed(f *os.File) error {
	if err := c.toParent(); err != nil {
		return err
	}
	st, err := c.statFile(f)
	switch {
	case err != nil:
		return err
	case !st.isRegular():
		return ErrSpecial
	case st.nlink != 0:
		return ErrHardlink
	case st.size > c.r.policy.MaxWriteBytes:
		return ErrTooLarge
	case c.shape.MustDir:
		return errNotDir
	}
	if _, err := c.exactMode(st.mode); err != nil {
		return err
	}
	if err := c.spend(Budget{Bytes: st.size}); err != nil {
		return err
	}
	if err := c.permit(StepPublish, 1); err != nil {
		return err
	}
	err = c.r.sys.publish(handle(f.Fd()), c.dir, c.leaf)
	c.settleSpent(err == nil)
	runtime.KeepAlive(f)
	if err == nil || !notHere(err) {
		return err
	}
	if err == syscall.ENOENT {
		// The directory is gone, or there is no /proc to name the file through.
		if _, serr := c.r.sys.stat(c.dir, ".", false); serr != nil {
			return serr
		}
	}
	// Not wrapped: ENOENT is about the file, and must not pass for an absent name.
	return because(ErrUnsupported, "the file cannot be given a name: "+err.Error())
}
