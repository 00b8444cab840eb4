//go:build linux || darwin || freebsd

package caproot

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle is a file descriptor.
type handle int

const noHandle handle = -1

const errNotDir = syscall.ENOTDIR

// unixSystem has the primitives that all Unix systems share. The system's own
// file adds the rest and replaces what it can do better.
type unixSystem struct{}

// retry repeats a call that a signal interrupted. Go installs its handlers with
// SA_RESTART, but FUSE and NFS answer EINTR all the same.
func retry(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

func openPath(path string) (h handle, err error) {
	err = retry(func() error {
		fd, err := unix.Open(path, pathFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		h = handle(fd)
		return err
	})
	return h, err
}

func dupFile(f *os.File) (h handle, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return noHandle, err
	}
	if raw.Control(func(fd uintptr) { h, err = unixSystem{}.dup(handle(fd)) }) != nil {
		// The only failure of its own is a closed file, by an error that os hides.
		return noHandle, fs.ErrClosed
	}
	return h, err
}

func newFile(h handle, name string) *os.File { return os.NewFile(uintptr(h), name) }

func (unixSystem) dup(h handle) (handle, error) {
	fd, err := unix.FcntlInt(uintptr(h), unix.F_DUPFD_CLOEXEC, 3)
	return handle(fd), err
}

// close is not repeated after EINTR: the descriptor is gone by then (close(2)).
func (unixSystem) close(h handle) error {
	if err := unix.Close(int(h)); err != nil && err != syscall.EINTR {
		return err
	}
	return nil
}

func (unixSystem) mkdir(dir handle, name string, perm fs.FileMode) error {
	return retry(func() error { return unix.Mkdirat(int(dir), name, unixMode(perm)) })
}

func (unixSystem) link(from handle, name string, to handle, newName string) error {
	return retry(func() error { return unix.Linkat(int(from), name, int(to), newName, 0) })
}

func (unixSystem) symlink(target string, dir handle, name string) error {
	return retry(func() error { return unix.Symlinkat(target, int(dir), name) })
}

func (unixSystem) readlink(dir handle, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		var n int
		err := retry(func() (err error) {
			n, err = unix.Readlinkat(int(dir), name, buf)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

func (unixSystem) read(h handle, p []byte) (int, error) {
	for {
		n, err := unix.Read(int(h), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func (unixSystem) readAt(h handle, p []byte, offset int64) (int, error) {
	for {
		n, err := unix.Pread(int(h), p, offset)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func (unixSystem) write(h handle, p []byte) (int, error) {
	for {
		n, err := unix.Write(int(h), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func (unixSystem) writeAt(h handle, p []byte, offset int64) (int, error) {
	for {
		n, err := unix.Pwrite(int(h), p, offset)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func (unixSystem) seek(h handle, offset int64, whence int) (int64, error) {
	return unix.Seek(int(h), offset, whence)
}

func (unixSystem) truncate(h handle, size int64) error {
	return retry(func() error { return unix.Ftruncate(int(h), size) })
}

func (unixSystem) lock(h handle) error {
	return retry(func() error { return unix.Flock(int(h), unix.LOCK_EX|unix.LOCK_NB) })
}

func direntType(t byte) (mode fs.FileMode, typed bool) {
	switch t {
	case unix.DT_REG:
		return 0, true
	case unix.DT_DIR:
		return fs.ModeDir, true
	case unix.DT_LNK:
		return fs.ModeSymlink, true
	case unix.DT_FIFO:
		return fs.ModeNamedPipe, true
	case unix.DT_SOCK:
		return fs.ModeSocket, true
	case unix.DT_CHR:
		return fs.ModeDevice | fs.ModeCharDevice, true
	case unix.DT_BLK:
		return fs.ModeDevice, true
	}
	return fs.ModeIrregular, false
}

func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		mode |= unix.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		mode |= unix.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		mode |= unix.S_ISVTX
	}
	return mode
}

func goMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	default:
		mode |= fs.ModeIrregular
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// openFlags translates what every Unix system has in common. No open takes a
// controlling terminal or is inherited by a child.
func openFlags(how openHow) int {
	flags := unix.O_CLOEXEC | unix.O_NOCTTY
	switch {
	case how&pathOnly != 0:
		flags = unix.O_CLOEXEC | pathFlags
	case how&(forRead|forWrite) == forRead|forWrite:
		flags |= unix.O_RDWR
	case how&forWrite != 0:
		flags |= unix.O_WRONLY
	}
	for _, f := range openBits {
		if how&f.how != 0 {
			flags |= f.flag
		}
	}
	return flags
}

var openBits = [...]struct {
	how  openHow
	flag int
}{
	{appending, unix.O_APPEND},
	{creating, unix.O_CREAT},
	{exclusive, unix.O_EXCL},
	{truncating, unix.O_TRUNC},
	{synced, unix.O_SYNC},
	{directoryOnly, unix.O_DIRECTORY},
	{nonBlocking, unix.O_NONBLOCK},
}

// stageMode is the mode a stage is made with: until it is complete it is its
// owner's alone.
func stageMode(fs.FileMode) fs.FileMode { return 0o600 }

// sameMode tells whether the system holds the mode that was asked for.
func sameMode(have, want fs.FileMode) bool { return have == want }

// setBlocking takes off the O_NONBLOCK that an open was given in case it met a
// FIFO; left on, the runtime would try to poll the file. The open's own flags
// that F_SETFL can change are known, so it need not ask for them (fcntl(2); only
// the BSDs change O_SYNC).
func setBlocking(h handle, how openHow) error {
	_, err := unix.FcntlInt(uintptr(h), unix.F_SETFL, openFlags(how)&(unix.O_APPEND|unix.O_SYNC))
	return err
}

// systemFlags takes the flags of this system out of flag that OpenFile honours
// beside the portable ones. Close-on-exec and no controlling terminal hold
// always. O_NOFOLLOW stays in and is refused: links are the policy's matter, and
// a flag that was dropped would promise what does not hold.
func systemFlags(flag int) (how openHow, rest int) {
	if flag&unix.O_DIRECTORY == unix.O_DIRECTORY {
		how |= directoryOnly
	}
	if flag&unix.O_NONBLOCK != 0 {
		how |= nonBlocking
	}
	return how, flag &^ (unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK | unix.O_DIRECTORY)
}

// exportDir makes an *os.File of a directory. Entries of a plain one would be
// described by path, out of the root's reach (CVE-2026-27139); those of a file
// that an os.Root opened are described relative to its descriptor. A name that
// no path can have makes the path form fail where /proc does not serve.
func exportDir(h handle, display string) (*os.File, error) {
	f, err := openThroughRoot(h)
	if err != nil {
		return newFile(h, display+"\x00"), nil
	}
	return f, unixSystem{}.close(h)
}

func openThroughRoot(h handle) (*os.File, error) {
	r, err := os.OpenRoot(procPath(h))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := r.Open(".")
	if err != nil {
		return nil, err
	}
	var mine, got unix.Stat_t
	if err = unix.Fstat(int(h), &mine); err == nil {
		err = unix.Fstat(int(f.Fd()), &got)
	}
	if err != nil || mine.Dev != got.Dev || mine.Ino != got.Ino {
		f.Close()
		return nil, errNotDir
	}
	return f, nil
}

// procPath is a name that only this process's own descriptor answers to.
func procPath(h handle) string { return procFD + strconv.Itoa(int(h)) }

func unixType(m fs.FileMode) uint32 {
	switch m.Type() {
	case 0:
		return unix.S_IFREG
	case fs.ModeDir:
		return unix.S_IFDIR
	case fs.ModeSymlink:
		return unix.S_IFLNK
	case fs.ModeNamedPipe:
		return unix.S_IFIFO
	case fs.ModeSocket:
		return unix.S_IFSOCK
	case fs.ModeDevice | fs.ModeCharDevice:
		return unix.S_IFCHR
	case fs.ModeDevice:
		return unix.S_IFBLK
	}
	return 0
}
