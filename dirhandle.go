package caproot

import (
	"io/fs"
	"time"

	"github.com/caproot/caproot/identity"
)

// system is the one seam between this package and the kernel. Its rules:
// every name is one component, no method follows a link in that component,
// and every handle is closed on exec. Tests wrap it to attack, fail or count
// before each call; production code never replaces it.
//
// A method returns the system's own error (a syscall.Errno where there is
// one), so that what the caller sees is what the kernel said.
type system interface {
	names
	objects
}

// names are the operations on a name in an open directory.
type names interface {
	// openDir opens a directory for resolution only. A link or a file is
	// ENOTDIR or ELOOP.
	openDir(dir handle, name string) (handle, error)
	// open opens what name is; a link is ELOOP unless how says pathOnly.
	// The name "." reopens dir itself.
	open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error)
	// stat tells what name is; "" is dir itself. Only full asks for the mount
	// and the birth time.
	stat(dir handle, name string, full bool) (status, error)
	// readlink gives the text of a link; "" is dir itself, where the system can.
	readlink(dir handle, name string) (string, error)
	// magic tells whether a link in dir with this text is a reference of the
	// kernel's own, which leads elsewhere than the text says.
	magic(dir handle, text string) bool
	mkdir(dir handle, name string, perm fs.FileMode) error
	remove(dir handle, name string, isDir bool) error
	rename(from handle, name string, to handle, newName string, how renameHow) error
	link(from handle, name string, to handle, newName string) error
	symlink(target string, dir handle, name string) error
	// unnamed makes a file without a name, open for reading and writing.
	unnamed(dir handle, perm fs.FileMode) (handle, error)
	// publish gives an unnamed file its name; an existing name is EEXIST.
	publish(file, dir handle, name string) error
	// copyAccess gives an open file the access list of what name holds, or takes
	// its own away, where there is more than the mode that says who may use a file.
	// The name "" is the open file dir.
	copyAccess(dir handle, name string, to handle) error
	// hasAccess tells whether what name holds has such a list, so that its mode does
	// not say who may use it.
	hasAccess(dir handle, name string) (bool, error)
}

// objects are the operations on an open object.
type objects interface {
	read(file handle, p []byte) (int, error)
	readAt(file handle, p []byte, offset int64) (int, error)
	write(file handle, p []byte) (int, error)
	writeAt(file handle, p []byte, offset int64) (int, error)
	seek(file handle, offset int64, whence int) (int64, error)
	// list reads the next names of a directory opened for reading, without
	// "." and "..". An empty result is the end.
	list(dir handle, scratch []byte) ([]direntry, error)
	truncate(file handle, size int64) error
	chmod(object handle, mode fs.FileMode) error
	chown(object handle, uid, gid int) error
	chtimes(object handle, atime, mtime time.Time) error
	// sync flushes a file, or a directory opened for resolution. It returns
	// errPartSync after a flush that the drive may not have taken part in.
	sync(object handle) error
	// lock takes an exclusive lock on the file without waiting.
	lock(file handle) error
	// identify gathers all the evidence there is of which object this is.
	identify(object handle) (identity.ID, error)
	dup(object handle) (handle, error)
	close(object handle) error
}

// beneathOpener resolves a whole path in one call of the kernel.
type beneathOpener interface {
	openBeneath(dir handle, path string, how openHow, perm fs.FileMode, rule beneathRule) (handle, error)
}

// fsSyncer flushes the whole file system of an open file, and tells its errors. It
// answers as one that lacks the call where that would not reach stable storage.
type fsSyncer interface {
	syncFS(file handle) error
}

// useCounter tells whether the file system of an object is known to give each use
// of a file number a handle or a generation of its own, for as long as the object
// lives.
type useCounter interface {
	countsUses(object handle) bool
}

// rangeCopier lets the kernel copy between two open files.
type rangeCopier interface {
	// clone makes to share the content of from; it does all or nothing.
	clone(to, from handle) error
	// copyRange copies up to n bytes from offset to offset. Zero need not be the
	// end of from.
	copyRange(to, from handle, offset int64, n int) (int, error)
}

// namelessTeller is for systems that keep a removed file's name as long as it is
// open, and so may count it among its links.
type namelessTeller interface {
	nameless(file handle) bool
}

// openHow says for what an object is opened.
type openHow uint16

const (
	forRead openHow = 1 << iota
	forWrite
	appending
	creating
	exclusive
	truncating
	synced
	directoryOnly
	pathOnly    // for resolution and metadata; never blocks, has no side effect
	nonBlocking // a FIFO or device answers at once
	followLeaf  // openBeneath only
)

type renameHow uint8

const (
	replacing renameHow = iota
	noReplace           // EEXIST when the new name exists; never a plain rename
	exchanging
)

type beneathRule uint8

const (
	noSymlinks beneathRule = 1 << iota
	noMounts
	clampToRoot
)

// status is what the system tells about an object.
type status struct {
	dev, ino  uint64
	mount     uint64 // 0 when not asked for or not known
	birth     stamp  // zero when not asked for or not known
	mode      fs.FileMode
	nlink     uint64
	size      int64
	uid, gid  uint32
	rdev      uint64
	blocks    int64
	blockSize int64
	atime     stamp
	mtime     stamp
	ctime     stamp
}

// stamp is a time as the kernel gives it; int64 nanoseconds would end in 2262.
type stamp struct{ sec, nsec int64 }

func (t stamp) time() time.Time { return time.Unix(t.sec, t.nsec) }

func (s *status) isRegular() bool { return s.mode.IsRegular() }
func (s *status) isDir() bool     { return s.mode.IsDir() }
func (s *status) isLink() bool    { return s.mode&fs.ModeSymlink != 0 }
func (s *status) isSpecial() bool { return !s.isRegular() && !s.isDir() && !s.isLink() }

// holeBefore is what a write at an offset adds to a file before it.
func (s *status) holeBefore(at int64) int64 {
	if s.isSpecial() {
		return 0
	}
	return max(0, at-s.size)
}

// sameNumbers compares what pins an object while a handle to it is open: then
// the kernel cannot give the number to another one.
func (s *status) sameNumbers(o *status) bool {
	return s.ino != 0 && s.dev == o.dev && s.ino == o.ino && s.mode.Type() == o.mode.Type()
}

// sameObject is sameNumbers for two full answers of which the first object was
// not held in between, so that its number may have been given away.
func (s *status) sameObject(o *status) bool {
	return s.sameNumbers(o) && s.birth == o.birth && s.mount == o.mount
}

// onMount compares the mount of an object with a root's. An unknown mount is
// not permission.
func (s *status) onMount(mount uint64) bool { return mount != 0 && s.mount == mount }

// direntry is one name of a directory listing.
type direntry struct {
	name string
	mode fs.FileMode // type bits
	// typed is false where the file system does not say the type.
	typed bool
}
