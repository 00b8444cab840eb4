package caproot

import (
	"io"
	"io/fs"
	"os"
	"sort"
	"sync"

	"github.com/caproot/caproot/pathsafe"
)

// File is an open file or directory under the rules of its Root: it gives no
// descriptor, and it stops working when the root is closed. It has no
// finalizer: a File that is not closed leaks its descriptor. Its methods are
// those of *os.File and return errors of the same kinds. They are safe for
// concurrent use; reads and writes share one offset.
type File struct {
	r    *Root
	h    handle
	name string
	how  openHow
	life lifetime

	mu      sync.Mutex // guards the listing, and the room for a write
	scratch []byte
	listed  []direntry // read from the system, not yet handed out
}

var (
	_ fs.ReadDirFile = (*File)(nil)
	_ io.ReaderAt    = (*File)(nil)
	_ io.WriterAt    = (*File)(nil)
	_ io.Seeker      = (*File)(nil)
)

// OpenView opens a file with the flags of OpenFile as a File.
func (r *Root) OpenView(name string, flag int, perm fs.FileMode) (*File, error) {
	how, err := parseFlags(flag)
	if err != nil {
		return nil, r.refuse(&verbViewRead, name, err)
	}
	var c call
	if err := c.begin(r, viewVerb(how), name); err != nil {
		return nil, err
	}
	defer c.end()
	h, _, err := c.openFile(how, perm)
	if err != nil {
		return nil, c.fail(err)
	}
	return c.view(h, how), nil
}

// view puts an open object under the root's rules.
func (c *call) view(h handle, how openHow) *File {
	f := &File{r: c.r, h: h, name: c.name, how: how}
	c.gives(f)
	return f
}

// The verbs of an open, so that the hot path makes none.
var (
	verbViewRead  = openVerb("open", forRead)
	verbViewWrite = openVerb("open", forWrite)
	verbViewBoth  = openVerb("open", forRead|forWrite)
)

func viewVerb(how openHow) *verb {
	changes := how&(forWrite|creating|truncating) != 0
	switch {
	case changes && how&forRead != 0:
		return &verbViewBoth
	case changes:
		return &verbViewWrite
	}
	return &verbViewRead
}

// Name returns the name the file was opened by.
func (f *File) Name() string {
	if f == nil {
		return ""
	}
	return f.name
}

// opened tells a File that a Root made.
func (f *File) opened() bool { return f != nil && f.r != nil }

// Close gives the file back. It waits for calls in flight; called again it
// returns an error that matches fs.ErrClosed.
func (f *File) Close() error {
	if !f.opened() {
		return f.fail("close", errNoFile)
	}
	if !f.life.close() {
		return f.fail("close", fs.ErrClosed)
	}
	return f.fail("close", f.r.sys.close(f.h))
}

func (f *File) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if !f.opened() {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	if f.r.tenure.told {
		f.r.report(op, f.name, "", err)
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// enter admits a call on the open file: the root is open, and so is the file.
func (f *File) enter() error {
	if !f.opened() {
		return errNoFile
	}
	if f.r.life.state.Load() >= closing {
		return fs.ErrClosed
	}
	if err := f.r.tenure.enter(); err != nil {
		return err
	}
	err := f.life.enter()
	if err != nil {
		f.r.tenure.leave()
	}
	return err
}

func (f *File) leave() {
	f.life.leave()
	f.r.tenure.leave()
}

// Read reads from the file's offset; at the end it returns io.EOF.
func (f *File) Read(p []byte) (int, error) {
	if err := f.enter(); err != nil {
		return 0, f.fail("read", err)
	}
	defer f.leave()
	if len(p) == 0 {
		return 0, nil
	}
	n, err := f.r.sys.read(f.h, p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, f.fail("read", err)
}

// ReadAt reads all of p from an offset, or as much as there is and io.EOF.
func (f *File) ReadAt(p []byte, offset int64) (n int, err error) {
	if err := f.enter(); err != nil {
		return 0, f.fail("readat", err)
	}
	defer f.leave()
	if offset < 0 {
		return 0, f.fail("readat", because(ErrOption, "the offset is negative"))
	}
	for n < len(p) {
		m, err := f.r.sys.readAt(f.h, p[n:], offset+int64(n))
		if err != nil {
			return n, f.fail("readat", err)
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// Seek moves the offset, as io.Seeker says. On a directory Seek(0, io.SeekStart)
// begins the listing anew.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if err := f.enter(); err != nil {
		return 0, f.fail("seek", err)
	}
	defer f.leave()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = nil
	n, err := f.r.sys.seek(f.h, offset, whence)
	return n, f.fail("seek", err)
}

// Stat describes the open file.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := f.enter(); err != nil {
		return nil, f.fail("stat", err)
	}
	defer f.leave()
	st, err := f.r.sys.stat(f.h, "", false)
	if err != nil {
		return nil, f.fail("stat", err)
	}
	return newFileInfo(f.name, st), nil
}

// Sync flushes the file to stable storage. On macOS, where the file system cannot
// ask the drive for that, it is fsync alone.
func (f *File) Sync() error {
	if err := f.enter(); err != nil {
		return f.fail("sync", err)
	}
	defer f.leave()
	err := f.r.sys.sync(f.h)
	if err == errPartSync {
		err = nil
	}
	return f.fail("sync", err)
}

// listBytes is the buffer of one directory read: glibc's size.
const listBytes = 32 << 10

// ReadDir lists a directory in the order of the file system, as
// fs.ReadDirFile says. Info of an entry describes the entry of this very
// directory or fails.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	if err := f.enter(); err != nil {
		return nil, f.fail("readdir", err)
	}
	defer f.leave()
	if f.r.policy.Rights&List == 0 {
		return nil, f.fail("readdir", because(ErrPolicy, "needs List"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.r.sys.stat(f.h, "", false)
	if err != nil {
		return nil, f.fail("readdir", err)
	}
	entries := []fs.DirEntry{}
	for n <= 0 || len(entries) < n {
		if len(f.listed) == 0 {
			if f.scratch == nil {
				f.scratch = make([]byte, listBytes)
			}
			f.listed, err = f.r.sys.list(f.h, f.scratch)
			if err != nil {
				return entries, f.fail("readdir", err)
			}
			if len(f.listed) == 0 {
				break
			}
		}
		e := &dirEntry{direntry: f.listed[0], dir: f.name, root: f.r, id: id}
		f.listed = f.listed[1:]
		if !e.typed && !f.settleType(e) {
			continue
		}
		entries = append(entries, e)
	}
	if n > 0 && len(entries) == 0 {
		return entries, io.EOF
	}
	return entries, nil
}

// settleType asks for a type that the listing did not tell. An entry that has
// vanished is left out; one that cannot be asked keeps an irregular type.
func (f *File) settleType(e *dirEntry) bool {
	st, err := f.r.sys.stat(f.h, e.name, false)
	if err == nil {
		e.mode = st.mode.Type()
	}
	return err == nil || Code(err) != "not-exist"
}

func sortEntries(entries []fs.DirEntry) {
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
}

// export hands an open object out as an *os.File, or closes it.
func (c *call) export(h handle, isDir bool, how openHow) (*os.File, error) {
	if err := c.admitExport(isDir); err != nil {
		c.r.sys.close(h)
		return nil, err
	}
	display := joinDisplay(c.r.name, pathsafe.Canonical(c.name))
	if isDir {
		return c.handOut(exportDir(h, display))
	}
	if c.cautious()&^how != 0 {
		if err := setBlocking(h, how); err != nil {
			c.r.sys.close(h)
			return nil, err
		}
	}
	return c.handOut(newFile(h, display), nil)
}
