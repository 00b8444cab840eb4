//go:build darwin || freebsd

package caproot

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// bsdSystem is what macOS and FreeBSD share beyond all of Unix.
type bsdSystem struct{ unixSystem }

// kernelResolves: the walker serves. O_RESOLVE_BENEATH has no counterpart for
// refusing mounts on the way, on FreeBSD nor for links.
func kernelResolves() bool { return false }

// guardBeneath is the flag if the kernel refuses ".." of /dev by it, and not
// what is inside.
func guardBeneath(flag int) int {
	dev, err := openat(unix.AT_FDCWD, "/dev", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0
	}
	defer bsdSystem{}.close(dev)
	if !refuses(dev, "..", flag) || refuses(dev, ".", flag) {
		return 0
	}
	return flag
}

// refuses tells whether a directory is not opened for the flag.
func refuses(dir handle, path string, flag int) bool {
	h, err := openat(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|flag, 0)
	if err != nil {
		return true
	}
	bsdSystem{}.close(h)
	return false
}

func openat(dir handle, name string, flags int, perm fs.FileMode) (h handle, err error) {
	err = retry(func() error {
		fd, err := unix.Openat(int(dir), name, flags|unix.O_CLOEXEC, unixMode(perm))
		h = handle(fd)
		return err
	})
	return h, err
}

// copyAccess: access lists are not kept here, see docs/platforms.md.
func (bsdSystem) copyAccess(handle, string, handle) error { return nil }

func (bsdSystem) hasAccess(handle, string) (bool, error) { return false, nil }

// openDir asks for search permission alone.
func (bsdSystem) openDir(dir handle, name string) (handle, error) {
	return openat(dir, name, unix.O_SEARCH|unix.O_DIRECTORY|unix.O_NOFOLLOW|guards(), 0)
}

func (bsdSystem) open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	if how&pathOnly != 0 {
		return openat(dir, name, openFlags(how)|pathLeafFlags, 0)
	}
	return openat(dir, name, openFlags(how)|unix.O_NOFOLLOW|guards(), perm)
}

func (bsdSystem) stat(dir handle, name string, _ bool) (status, error) {
	st, err := fullStat(dir, name)
	if err != nil {
		return status{}, err
	}
	return fromStat(st), nil
}

func fullStat(dir handle, name string) (st *unix.Stat_t, err error) {
	st = new(unix.Stat_t)
	err = retry(func() error {
		if name == "" {
			return unix.Fstat(int(dir), st)
		}
		return unix.Fstatat(int(dir), name, st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return st, err
}

// fromStat takes the device for the mount: there each mount has its own, and
// no bind mount shares one.
func fromStat(st *unix.Stat_t) status {
	return status{
		dev: uint64(st.Dev), ino: st.Ino, mount: uint64(st.Dev), mode: goMode(uint32(st.Mode)), nlink: uint64(st.Nlink),
		size: st.Size, uid: st.Uid, gid: st.Gid, rdev: uint64(st.Rdev), blocks: st.Blocks, blockSize: int64(st.Blksize),
		birth: stamp{int64(st.Btim.Sec), int64(st.Btim.Nsec)},
		atime: stamp{int64(st.Atim.Sec), int64(st.Atim.Nsec)},
		mtime: stamp{int64(st.Mtim.Sec), int64(st.Mtim.Nsec)},
		ctime: stamp{int64(st.Ctim.Sec), int64(st.Ctim.Nsec)},
	}
}

// vacantIsZero: an entry with the number 0 is a vacant place (dir(5)).
const vacantIsZero = true

// magic: no file system has links that are no text.
func (bsdSystem) magic(handle, string) bool { return false }

// unnamed: there is no O_TMPFILE.
func (bsdSystem) unnamed(handle, fs.FileMode) (handle, error) { return noHandle, unix.ENOTSUP }

func (bsdSystem) publish(handle, handle, string) error { return unix.ENOTSUP }

func (bsdSystem) chmod(h handle, mode fs.FileMode) error {
	return retry(func() error { return unix.Fchmod(int(h), unixMode(mode)) })
}

func (bsdSystem) chown(h handle, uid, gid int) error {
	return retry(func() error { return unix.Fchown(int(h), uid, gid) })
}

// chtimes leaves a zero time as it is. Through a handle there is only
// futimes, whose unit is the microsecond.
func (s bsdSystem) chtimes(h handle, atime, mtime time.Time) error {
	st, err := s.stat(h, "", false)
	if err != nil {
		return err
	}
	times := []unix.Timeval{timeval(atime, st.atime), timeval(mtime, st.mtime)}
	return retry(func() error { return unix.Futimes(int(h), times) })
}

func timeval(t time.Time, present stamp) unix.Timeval {
	if t.IsZero() {
		t = present.time()
	}
	return unix.NsecToTimeval(t.UnixNano())
}

func (s bsdSystem) sync(h handle) error {
	err := retry(func() error { return flush(h) })
	if err != syscall.EBADF {
		return err
	}
	dir, err := openat(h, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer s.close(dir)
	return retry(func() error { return flush(dir) })
}

// identify: the generation is 0 where the caller may not know it.
func (bsdSystem) identify(h handle) (identity.ID, error) {
	st, err := fullStat(h, "")
	if err != nil {
		return identity.ID{}, err
	}
	full := fromStat(st)
	return identity.ID{
		Dev: full.dev, Ino: full.ino, Type: full.mode.Type(), Gen: uint64(st.Gen), HasGen: st.Gen != 0,
		Birth: full.birth.sec*1e9 + full.birth.nsec, HasBirth: true,
	}, nil
}

func (bsdSystem) remove(dir handle, name string, isDir bool) error {
	flag := 0
	if isDir {
		flag = unix.AT_REMOVEDIR
	}
	return retry(func() error { return unix.Unlinkat(int(dir), name, flag) })
}
