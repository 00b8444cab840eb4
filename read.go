package caproot

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

var (
	verbRead     = verb{name: "read", needs: Read}
	verbStat     = verb{name: "stat", needs: List}
	verbLstat    = verb{name: "lstat", needs: List}
	verbReadlink = verb{name: "readlink", needs: List}
	verbReadDir  = verb{name: "readdir", needs: List}
)

// ReadFile returns the content of a file. It returns ErrSpecial for what is
// neither file nor directory unless the policy allows those, and ErrTooLarge
// when the content is longer than Policy.MaxReadBytes.
func (r *Root) ReadFile(name string) ([]byte, error) {
	return r.readInto(nil, name)
}

// AppendFile appends the content of a file to dst and returns the extended
// buffer, like ReadFile into memory of the caller's. If dst has room for the
// content and one byte more, nothing is allocated. On an error dst comes back
// unchanged.
func (r *Root) AppendFile(dst []byte, name string) ([]byte, error) {
	return r.readInto(dst, name)
}

func (r *Root) readInto(dst []byte, name string) ([]byte, error) {
	var c call
	if err := c.begin(r, &verbRead, name); err != nil {
		return dst, err
	}
	defer c.end()
	h, err := c.open(forRead|c.cautious(), 0)
	if err != nil {
		return dst, c.fail(c.explainOpen(err))
	}
	defer r.sys.close(h)
	st, err := r.sys.stat(h, "", false)
	if err == nil {
		err = c.admitRead(&st)
	}
	if err != nil {
		return dst, c.fail(err)
	}
	out, err := c.readAll(h, dst, st.size)
	if err == nil && r.policy.Hardlinks == HardlinksRefuse {
		err = c.stillOneName(h)
	}
	if err != nil {
		return dst, c.fail(err)
	}
	return out, nil
}

// cautious makes an open answer at once where special files are refused.
func (c *call) cautious() openHow {
	if c.r.policy.Special == SpecialRefuse {
		return nonBlocking
	}
	return 0
}

// explainOpen gives the errno that a special file answers an open with its
// cause, once a look at it confirms that.
func (c *call) explainOpen(err error) error {
	if !maybeSpecial(err) || c.r.policy.Special == SpecialAllow {
		return err
	}
	h, oerr := c.open(pathOnly, 0)
	if oerr != nil {
		return err
	}
	defer c.r.sys.close(h)
	if st, serr := c.r.sys.stat(h, "", false); serr == nil && st.isSpecial() {
		return &detail{ErrSpecial, err.Error(), err}
	}
	return err
}

// admitRead decides on an object that is open for reading.
func (c *call) admitRead(st *status) error {
	p := &c.r.policy
	switch {
	case st.isDir():
		return nil
	case st.isSpecial() && p.Special == SpecialRefuse:
		return ErrSpecial
	case st.isRegular() && st.nlink > 1 && p.Hardlinks == HardlinksRefuse:
		return ErrHardlink
	}
	return nil
}

func (c *call) stillOneName(h handle) error {
	st, err := c.r.sys.stat(h, "", false)
	if err == nil {
		err = c.admitRead(&st)
	}
	return err
}

// readAll reads to the end of the file. The size is only a hint: procfs says
// 0, and a file may grow meanwhile.
func (c *call) readAll(h handle, dst []byte, size int64) ([]byte, error) {
	limit := c.r.policy.MaxReadBytes
	if size > limit {
		return dst, ErrTooLarge
	}
	start := len(dst)
	dst = reserve(dst, int(min(max(size, 0), maxReserve))+1)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := c.r.sys.read(h, dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err != nil:
			return dst, err
		case int64(len(dst)-start) > limit:
			return dst, ErrTooLarge
		case n == 0 || int64(n) == size && len(dst)-start == n:
			// One short read that ends where the size said is the end of the file.
			return dst, nil
		}
	}
}

// maxReserve bounds the buffer that a size alone gets. A file system can claim
// any size, and a sparse file has one for free; beyond this the buffer grows with
// what is really read.
const maxReserve = 1 << 28

// bigRead is where clearing a fresh buffer begins to cost more than the rest.
const bigRead = 32 << 10

// reserve returns dst with room for n more bytes. A big fresh buffer is not
// cleared first: the kernel writes what is handed out.
func reserve(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	if len(dst) > 0 || n < bigRead {
		return append(make([]byte, 0, len(dst)+n), dst...)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0)
	// SAFETY: Grow guarantees that n bytes fit without another allocation, so the
	// byte just written begins an allocation of at least n bytes that nothing
	// else refers to once b is gone.
	return unsafe.Slice(unsafe.StringData(b.String()), n)[:0]
}

// Stat describes what name leads to. It returns ErrSymlink for a link that
// Policy.Links does not follow; Lstat describes that.
func (r *Root) Stat(name string) (fs.FileInfo, error) {
	var c call
	if err := c.begin(r, &verbStat, name); err != nil {
		return nil, err
	}
	defer c.end()
	st, err := c.stat()
	if err != nil {
		return nil, c.fail(err)
	}
	return newFileInfo(name, st), nil
}

// stat describes what the whole name leads to. A single component that is no
// link needs no open: it is contained by construction.
func (c *call) stat() (status, error) {
	if leaf := c.shape.Leaf; c.r.deny == nil && c.shape.Parent == "" && leaf != "" && leaf != ".." {
		c.dir, c.leaf = c.r.dir, leaf
		if st, err := c.leafStatus(); err == nil && !st.isLink() {
			return st, nil
		}
	}
	if c.r.beneath == nil && c.r.deny == nil {
		return c.walkStat()
	}
	h, err := c.open(pathOnly, 0)
	if err != nil {
		return status{}, err
	}
	st, err := c.describe(h)
	if err == nil && st.isLink() {
		if !c.placed() {
			err = c.toParent()
		}
		if err == nil {
			err = c.refusedLink()
		}
	}
	return st, err
}

// walkStat describes by name what the walk leads to, so that nothing needs to
// be opened where even that has effects.
func (c *call) walkStat() (status, error) {
	w := c.walker()
	defer w.close()
	w.rest = c.shape.Path
	var how openHow
	if c.links() >= LinksFollow {
		how = followLeaf
	}
	for range maxRaces {
		leaf, err := w.toLeaf()
		if err != nil {
			return status{}, err
		}
		st, err := c.r.sys.stat(w.here(), leaf, w.stay)
		switch {
		case err != nil:
			return st, err
		case st.isLink():
			if err := w.followLeaf(leaf, how, syscall.ELOOP); err != errFollowed {
				return st, err
			}
			continue
		case w.stay && !st.onMount(w.mount):
			err = ErrMount
		case (c.shape.MustDir || w.mustDir) && !st.isDir():
			err = errNotDir
		}
		return st, err
	}
	return status{}, ErrUnstable
}

// describe describes and closes an object that was opened for metadata only,
// which no file notices.
func (c *call) describe(h handle) (status, error) {
	st, err := c.r.sys.stat(h, "", false)
	c.r.sys.close(h)
	return st, err
}

// Exists reports whether name leads to anything. Every other answer than yes
// or "not there" is an error.
func (r *Root) Exists(name string) (bool, error) {
	var c call
	if err := c.begin(r, &verbStat, name); err != nil {
		return false, err
	}
	defer c.end()
	err := c.find()
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, c.fail(err)
}

// find is stat without the description, where that is not needed to tell a
// link that may not be followed.
func (c *call) find() error {
	if c.r.beneath == nil || c.links() < LinksFollow {
		_, err := c.stat()
		return err
	}
	h, err := c.open(pathOnly, 0)
	if err == nil {
		c.r.sys.close(h)
	}
	return err
}

// Lstat describes name itself, be it a link. A trailing separator asks for a
// directory: with it a link is ErrSymlink.
func (r *Root) Lstat(name string) (fs.FileInfo, error) {
	var c call
	if err := c.begin(r, &verbLstat, name); err != nil {
		return nil, err
	}
	defer c.end()
	st, err := c.lstat()
	if err != nil {
		return nil, c.fail(err)
	}
	return newFileInfo(name, st), nil
}

func (c *call) lstat() (status, error) {
	if leaf := c.shape.Leaf; leaf == "" || leaf == ".." {
		return c.stat()
	}
	if c.r.beneath != nil && c.r.deny == nil && !c.shape.MustDir && c.shape.Parent != "" {
		h, err := c.r.beneath.openBeneath(c.r.dir, c.shape.Path, pathOnly, 0, c.beneathRule())
		if err == nil {
			return c.describe(h)
		}
		if !undecided(err) {
			return status{}, err
		}
	}
	if err := c.toParent(); err != nil {
		return status{}, err
	}
	return c.leafStatus()
}

// leafStatus describes the leaf of the place. A mount on it is outside of a
// root that stays on its mount.
func (c *call) leafStatus() (status, error) {
	stay := c.r.policy.Mounts == MountsStay
	st, err := c.r.sys.stat(c.dir, c.leaf, stay)
	switch {
	case err != nil:
	case stay && !st.onMount(c.r.mount):
		err = ErrMount
	case c.shape.MustDir && st.isLink():
		err = ErrSymlink
	case c.shape.MustDir && !st.isDir():
		err = errNotDir
	}
	return st, err
}

// Readlink returns the target text of a symbolic link.
func (r *Root) Readlink(name string) (string, error) {
	var c call
	if err := c.begin(r, &verbReadlink, name); err != nil {
		return "", err
	}
	defer c.end()
	err := c.toParent()
	if err == nil && c.shape.MustDir {
		_, err = c.leafStatus()
	}
	if err != nil {
		return "", c.fail(err)
	}
	target, err := r.sys.readlink(c.dir, c.leaf)
	return target, c.fail(err)
}

// ReadDir lists a directory, sorted by name.
func (r *Root) ReadDir(name string) ([]fs.DirEntry, error) {
	var c call
	if err := c.begin(r, &verbReadDir, name); err != nil {
		return nil, err
	}
	defer c.end()
	h, _, err := c.openFile(forRead|directoryOnly, 0)
	if err != nil {
		return nil, c.fail(err)
	}
	f := c.view(h, forRead)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	sortEntries(entries)
	return entries, err
}

// Open opens a file or directory for reading. The *os.File that comes back is
// outside of every later rule: it cannot be revoked, its descriptor can be passed
// on, its methods change mode and owner whatever the rights, and no limit or
// budget holds for it. OpenView gives a File that stays under the root's rules.
//
// A directory needs the right Share, as for File: its *os.File is authority for
// everything in it and above, and FromFile makes a Root of it under any policy.
// Without it the error matches ErrPolicy and syscall.EISDIR; list by ReadDir, Walk
// or OpenView, and go on from it by OpenRoot.
func (r *Root) Open(name string) (*os.File, error) {
	return r.OpenFile(name, os.O_RDONLY, 0)
}
