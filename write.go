package caproot

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var verbTruncate = verb{name: "truncate", needs: Modify, changes: true}

// knownFlags are the portable flags of OpenFile and OpenView.
const knownFlags = os.O_RDONLY | os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_EXCL | os.O_SYNC | os.O_TRUNC

// parseFlags returns an error that matches fs.ErrInvalid for a flag it does not
// know, and for O_TRUNC of what is not opened for writing, which POSIX leaves
// undefined (open(3p)).
func parseFlags(flag int) (how openHow, err error) {
	more, flag := systemFlags(flag)
	if flag&^knownFlags != 0 {
		return 0, &detail{ErrName, "unknown open flag", fs.ErrInvalid}
	}
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		how = forRead
	case os.O_WRONLY:
		how = forWrite
	case os.O_RDWR:
		how = forRead | forWrite
	default:
		return 0, &detail{ErrName, "two access modes", fs.ErrInvalid}
	}
	for _, f := range []struct {
		flag int
		how  openHow
	}{{os.O_APPEND, appending}, {os.O_CREATE, creating}, {os.O_EXCL, exclusive}, {os.O_SYNC, synced}, {os.O_TRUNC, truncating}} {
		if flag&f.flag == f.flag {
			how |= f.how
		}
	}
	if how&truncating != 0 && how&forWrite == 0 {
		return 0, &detail{ErrName, "O_TRUNC without O_WRONLY or O_RDWR", fs.ErrInvalid}
	}
	return how | more, nil
}

// openVerb gives the plan what flags need. Rights that depend on what is found
// are checked when it is found.
func openVerb(name string, how openHow) verb {
	v := verb{name: name, changes: how&(forWrite|creating) != 0}
	if v.changes && how&forRead != 0 {
		v.needs |= Read
	}
	return v
}

// OpenFile opens a file as os.Root.OpenFile does, with the flags O_RDONLY,
// O_WRONLY, O_RDWR, O_APPEND, O_CREATE, O_EXCL, O_SYNC and O_TRUNC; another
// flag, O_TRUNC with O_RDONLY, and O_CREATE with O_DIRECTORY are refused with an
// error that matches fs.ErrInvalid before anything is touched. perm is cut by the
// umask and by Policy.Modes. Policy.MaxWriteBytes does not bind what is written to
// the *os.File; OpenView gives a File that it binds. What Open says of the *os.File holds here too.
func (r *Root) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	var c call
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

// beginOpen is begin for an open with flags whose *os.File is handed out.
func (c *call) beginOpen(r *Root, name string, flag int) (openHow, error) {
	how, err := parseFlags(flag)
	v := openVerb("open", how)
	v.exports = true
	if err != nil {
		return 0, r.refuse(&v, name, err)
	}
	if err := c.begin(r, &v, name); err != nil {
		return 0, err
	}
	if err := c.admitExport(false); err != nil {
		defer c.end()
		return 0, c.fail(err)
	}
	return how, nil
}

// Create makes or truncates a file, open for reading and writing, as os.Root.Create
// does. What OpenFile says of Policy.MaxWriteBytes holds here too.
func (r *Root) Create(name string) (*os.File, error) {
	return r.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// WriteFile writes a file in place as os.Root.WriteFile does: a crash or a full
// disk may leave part of the data. Put is the verb that does not.
func (r *Root) WriteFile(name string, data []byte, perm fs.FileMode) error {
	var c call
	if err := c.begin(r, &verbViewWrite, name); err != nil {
		return err
	}
	defer c.end()
	if int64(len(data)) > r.policy.MaxWriteBytes {
		return c.fail(ErrTooLarge)
	}
	if err := c.spend(Budget{Bytes: int64(len(data))}); err != nil {
		return c.fail(err)
	}
	h, _, err := c.openFile(forWrite|creating|truncating, perm)
	if err != nil {
		return c.fail(err)
	}
	n, err := writeAll(r.sys, h, data)
	c.settleWrite(n, len(data))
	if cerr := r.sys.close(h); err == nil {
		err = cerr
	}
	return c.fail(err)
}

// openFile opens for reading or in-place writing and checks what it opened.
func (c *call) openFile(how openHow, perm fs.FileMode) (h handle, isDir bool, err error) {
	if perm, err = c.creationMode(perm); err != nil {
		return noHandle, false, err
	}
	asked := how
	if how, err = c.writeRights(how); err != nil {
		return noHandle, false, err
	}
	if how&creating != 0 && how&directoryOnly != 0 {
		return noHandle, false, c.refuseMakingDir()
	}
	if how&creating != 0 {
		if err = c.admitFileName(); err != nil {
			return noHandle, false, err
		}
	}
	if c.inspects() {
		how &^= truncating
	}
	c.fresh = asked&creating != 0 && asked&exclusive != 0
	h, err = c.open(how|c.cautious(), perm)
	if !c.fresh && !c.placed() && errors.Is(err, fs.ErrExist) {
		h, err = c.openTarget(how|c.cautious(), perm)
	}
	if err != nil {
		return noHandle, false, c.lacking(asked, how, c.explainOpen(err))
	}
	if c.takesAnything() && !c.verb.exports {
		return h, false, nil
	}
	isDir, err = c.admitOpen(h, how)
	if err == nil && asked&truncating&^how != 0 {
		err = c.r.sys.truncate(h, 0)
	}
	if err != nil {
		c.r.sys.close(h)
		return noHandle, false, err
	}
	return h, isDir, nil
}

// refuseMakingDir is the answer for O_CREATE with O_DIRECTORY, which made a file
// before Linux 6.4. What is wrong with the way is told first.
func (c *call) refuseMakingDir() error {
	err := error(nil)
	if leaf := c.shape.Leaf; leaf == "" || leaf == ".." {
		err = c.toDirectory()
	} else {
		err = c.toParent()
	}
	if err == nil {
		err = &detail{ErrName, "O_CREATE with O_DIRECTORY", syscall.EINVAL}
	}
	return err
}

// openOrFollow opens or makes what the name, which may be a link, leads to.
func (c *call) openOrFollow(how openHow, perm fs.FileMode) (h handle, err error) {
	for range maxRaces {
		h, err = c.open(how&^creating, 0)
		if err == nil && how&(forWrite|truncating) == 0 {
			if err = c.refuseDir(h); err != nil {
				return noHandle, err
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return h, err
		}
		h, err = c.openTarget(how|exclusive, perm)
		if !errors.Is(err, fs.ErrExist) {
			return h, err
		}
	}
	return noHandle, ErrUnstable
}

// refuseDir gives an open that asks for no change the answer of one that may make
// a file.
func (c *call) refuseDir(h handle) error {
	st, err := c.r.sys.stat(h, "", false)
	if err == nil && st.isDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		c.r.sys.close(h)
	}
	return err
}

// openTarget makes the file that a link leads to and that is missing: the system
// follows no link in an exclusive open. It never opens a file that is there.
func (c *call) openTarget(how openHow, perm fs.FileMode) (handle, error) {
	c.leavePlace()
	err := c.toTarget()
	if err == nil {
		err = unreserved(c.leaf)
	}
	if err != nil {
		return noHandle, err
	}
	h, err := c.r.sys.open(c.dir, c.leaf, how, perm)
	return h, c.linkExists(err)
}

// linkExists gives the answer of an exclusive open its true cause where a link
// has the name.
func (c *call) linkExists(err error) error {
	if errors.Is(err, fs.ErrExist) {
		if st, serr := c.leafStatus(); serr == nil && st.isLink() {
			return c.refusedLink()
		}
	}
	return err
}

// inspects tells whether an opened object must be looked at before it changes:
// O_TRUNC would empty what turns out to be on another mount.
func (c *call) inspects() bool {
	p := &c.r.policy
	return p.Special == SpecialRefuse || p.Hardlinks != HardlinksAllow || p.Mounts == MountsStay || c.g != nil
}

// takesAnything tells that no object the kernel opened could be refused.
func (c *call) takesAnything() bool {
	return !c.inspects() && (c.verb.changes || c.r.policy.Rights&(Read|List) == Read|List)
}

// writeRights narrows an open to what the rights allow: without Modify only a
// new file can be opened for writing, without Create only an existing one.
func (c *call) writeRights(how openHow) (openHow, error) {
	if !c.verb.changes {
		if c.r.policy.Rights&(Read|List) == 0 {
			return 0, because(ErrPolicy, "needs Read or List")
		}
		return how, nil
	}
	create, modify := c.r.policy.Rights&Create != 0, c.r.policy.Rights&Modify != 0
	switch {
	case how&creating == 0 && !modify, !create && !modify, how&creating != 0 && how&exclusive != 0 && !create:
		return 0, because(ErrPolicy, "needs Create or Modify")
	case !modify:
		how |= exclusive
	case !create:
		how &^= creating
	}
	return how, nil
}

// lacking gives an open that was narrowed its true cause.
func (c *call) lacking(asked, how openHow, err error) error {
	switch {
	case how&^asked&exclusive != 0 && errors.Is(err, fs.ErrExist):
		return because(ErrPolicy, "file exists, needs Modify")
	case asked&^how&creating != 0 && errors.Is(err, fs.ErrNotExist):
		return because(ErrPolicy, "file does not exist, needs Create")
	}
	return err
}

// admitOpen decides on an object that was opened.
func (c *call) admitOpen(h handle, how openHow) (isDir bool, err error) {
	st, err := c.r.sys.stat(h, "", false)
	if err != nil {
		return false, err
	}
	if !c.verb.changes {
		want := Read
		if st.isDir() {
			want = List
		}
		if c.r.policy.Rights&want == 0 {
			return false, because(ErrPolicy, "needs Read for a file, List for a directory")
		}
		return st.isDir(), c.admitRead(&st)
	}
	return st.isDir(), c.admitChange(&st)
}

// admitChange decides on an object that is about to be changed in place.
func (c *call) admitChange(st *status) error {
	p := &c.r.policy
	switch {
	case st.isLink():
		return ErrSymlink
	case st.isSpecial() && p.Special == SpecialRefuse:
		return ErrSpecial
	case st.isRegular() && st.nlink > 1 && p.Hardlinks != HardlinksAllow:
		return ErrHardlink
	}
	return nil
}

// writeAll writes all of p and tells how much it wrote. A write that takes
// nothing and reports nothing is an error, or a broken file system would keep
// the loop for ever.
func writeAll(sys system, h handle, p []byte) (n int, err error) {
	for n < len(p) {
		m, err := sys.write(h, p[n:])
		n += m
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, because(syscall.EIO, "write made no progress")
		}
	}
	return n, nil
}
