package caproot

import (
	"encoding/binary"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// pathFlags opens an object for resolution only: no permission on it is
// needed, nothing happens to it.
const pathFlags = unix.O_PATH

// procFD is the directory of the process's own descriptors.
const procFD = "/proc/self/fd/"

// linuxSystem is the kernel of Linux. Where a path goes to the kernel on the
// hot verbs it is copied to the stack, so that nothing is allocated.
type linuxSystem struct{ unixSystem }

func hostSystem() system { return linuxSystem{} }

// kernelResolves tells whether openat2 (Linux 5.6) works, by a call that can
// fail for no other reason: a path's own EPERM says nothing about the kernel.
var kernelResolves = sync.OnceValue(func() bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &how)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
})

// stackPath holds most paths; a longer one goes to the heap.
type stackPath [256]byte

// terminate returns path with a NUL for the kernel.
func (s *stackPath) terminate(path string) *byte {
	if len(path) < len(s) {
		copy(s[:], path)
		s[len(path)] = 0
		return &s[0]
	}
	p := make([]byte, len(path)+1)
	copy(p, path)
	return &p[0]
}

func (linuxSystem) openBeneath(dir handle, path string, how openHow, perm fs.FileMode, rule beneathRule) (handle, error) {
	req := unix.OpenHow{Flags: uint64(openFlags(how)), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if how&creating != 0 {
		req.Mode = uint64(unixMode(perm))
	}
	if how&followLeaf == 0 {
		req.Flags |= unix.O_NOFOLLOW
	}
	if rule&clampToRoot != 0 {
		req.Resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	}
	if rule&noSymlinks != 0 {
		req.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	if rule&noMounts != 0 {
		req.Resolve |= unix.RESOLVE_NO_XDEV
	}
	var buf stackPath
	name := buf.terminate(path)
	for range maxRaces {
		fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(unsafe.Pointer(&req)), unsafe.Sizeof(req), 0, 0)
		switch errno {
		case 0:
			return handle(fd), nil
		case syscall.EAGAIN:
			// A rename somewhere on the system while ".." was resolved; or, without
			// "..", a lease on the file that O_NONBLOCK does not wait for.
		case syscall.EINTR:
		default:
			return noHandle, errno
		}
	}
	return noHandle, ErrUnstable
}

func (linuxSystem) openDir(dir handle, name string) (handle, error) {
	return openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func (linuxSystem) open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	return openat(dir, name, openFlags(how)|unix.O_NOFOLLOW, perm)
}

func openat(dir handle, name string, flags int, perm fs.FileMode) (handle, error) {
	var buf stackPath
	path := buf.terminate(name)
	for {
		fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(path)),
			uintptr(flags), uintptr(unixMode(perm)), 0, 0)
		switch errno {
		case 0:
			return handle(fd), nil
		case syscall.EINTR:
		default:
			return noHandle, errno
		}
	}
}

func (linuxSystem) stat(dir handle, name string, full bool) (status, error) {
	if !full && name == "" {
		var st unix.Stat_t
		if err := unix.Fstat(int(dir), &st); err != nil {
			return status{}, err
		}
		return fromStat(&st), nil
	}
	var stx unix.Statx_t
	if err := statx(dir, name, &stx); err != nil {
		return status{}, err
	}
	return fromStatx(&stx), nil
}

// statx asks for the unique mount id (Linux 6.8); older kernels answer with the
// plain one (5.8), which serves to compare two objects that are both open.
func statx(dir handle, name string, stx *unix.Statx_t) error {
	var buf stackPath
	path := buf.terminate(name)
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(flags),
			unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID_UNIQUE, uintptr(unsafe.Pointer(stx)), 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}

func fromStat(st *unix.Stat_t) status {
	return status{
		dev: uint64(st.Dev), ino: st.Ino, mode: goMode(st.Mode), nlink: uint64(st.Nlink), size: st.Size,
		uid: st.Uid, gid: st.Gid, rdev: uint64(st.Rdev), blocks: st.Blocks, blockSize: int64(st.Blksize),
		atime: stamp{int64(st.Atim.Sec), int64(st.Atim.Nsec)},
		mtime: stamp{int64(st.Mtim.Sec), int64(st.Mtim.Nsec)},
		ctime: stamp{int64(st.Ctim.Sec), int64(st.Ctim.Nsec)},
	}
}

func fromStatx(st *unix.Statx_t) status {
	s := status{
		dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, mode: goMode(uint32(st.Mode)), nlink: uint64(st.Nlink),
		size: int64(st.Size), uid: st.Uid, gid: st.Gid, rdev: unix.Mkdev(st.Rdev_major, st.Rdev_minor),
		blocks: int64(st.Blocks), blockSize: int64(st.Blksize),
		atime: stamp{st.Atime.Sec, int64(st.Atime.Nsec)},
		mtime: stamp{st.Mtime.Sec, int64(st.Mtime.Nsec)},
		ctime: stamp{st.Ctime.Sec, int64(st.Ctime.Nsec)},
	}
	if st.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) != 0 {
		s.mount = st.Mnt_id
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		s.birth = stamp{st.Btime.Sec, int64(st.Btime.Nsec)}
	}
	return s
}

// magic is true for the links of procfs and of AppArmor that are no plain text
// (nd_jump_link in fs/namei.c): what they lead to is outside of any root, and a
// text like "pipe:[7]" must not be taken for a missing file. Plain links of
// procfs, as "self", have neither a colon nor a leading slash.
func (linuxSystem) magic(dir handle, text string) bool {
	if !strings.HasPrefix(text, "/") && !strings.Contains(text, ":") {
		return false
	}
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(int(dir), &st) })
	return err != nil || st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SECURITYFS_MAGIC
}

func (linuxSystem) rename(from handle, name string, to handle, newName string, how renameHow) error {
	flags := [...]uintptr{replacing: 0, noReplace: unix.RENAME_NOREPLACE, exchanging: unix.RENAME_EXCHANGE}[how]
	var oldBuf, newBuf stackPath
	oldPath, newPath := oldBuf.terminate(name), newBuf.terminate(newName)
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_RENAMEAT2, uintptr(from), uintptr(unsafe.Pointer(oldPath)),
			uintptr(to), uintptr(unsafe.Pointer(newPath)), flags, 0)
		if errno != syscall.EINTR {
			return failed(errno)
		}
	}
}

func (linuxSystem) remove(dir handle, name string, isDir bool) error {
	var flags uintptr
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	var buf stackPath
	path := buf.terminate(name)
	for {
		_, _, errno := syscall.Syscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(path)), flags)
		if errno != syscall.EINTR {
			return failed(errno)
		}
	}
}

// linkat follows no link, unless flags say so.
func linkat(from handle, name string, to handle, newName string, flags int) error {
	var oldBuf, newBuf stackPath
	oldPath, newPath := oldBuf.terminate(name), newBuf.terminate(newName)
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_LINKAT, uintptr(from), uintptr(unsafe.Pointer(oldPath)),
			uintptr(to), uintptr(unsafe.Pointer(newPath)), uintptr(flags), 0)
		if errno != syscall.EINTR {
			return failed(errno)
		}
	}
}

// failed makes an error of a number: an Errno of 0 is not nil.
func failed(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// unnamed needs O_TMPFILE (Linux 3.11, and the file system's support).
//
// In a directory that was removed ext4 answers EPERM (__ext4_new_inode), where
// every other creation is ENOENT.
func (s linuxSystem) unnamed(dir handle, perm fs.FileMode) (handle, error) {
	h, err := openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, perm)
	if err == syscall.EPERM {
		if st, serr := s.stat(dir, "", false); serr == nil && st.nlink == 0 {
			err = syscall.ENOENT
		}
	}
	return h, err
}

// publish names the file through its descriptor, which the kernel allows to
// the descriptor's opener since 6.10 and to CAP_DAC_READ_SEARCH before; else
// through /proc, where it is mounted.
func (linuxSystem) publish(file, dir handle, name string) error {
	err := linkat(file, "", dir, name, unix.AT_EMPTY_PATH)
	if err != syscall.ENOENT {
		return err
	}
	return linkat(unix.AT_FDCWD, procPath(file), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// chmod changes the object itself. fchmod refuses an O_PATH descriptor, and
// fchmodat2 is of Linux 6.6.
func (linuxSystem) chmod(h handle, mode fs.FileMode) error {
	err := retry(func() error { return unix.Fchmod(int(h), unixMode(mode)) })
	if err != syscall.EBADF {
		return err
	}
	err = retry(func() error {
		return unix.Fchmodat(int(h), "", unixMode(mode), unix.AT_EMPTY_PATH)
	})
	if err != syscall.ENOSYS && err != syscall.EPERM && err != syscall.EOPNOTSUPP && err != syscall.EINVAL {
		return err
	}
	return retry(func() error { return unix.Chmod(procPath(h), unixMode(mode)) })
}

func (linuxSystem) chown(h handle, uid, gid int) error {
	return retry(func() error { return unix.Fchownat(int(h), "", uid, gid, unix.AT_EMPTY_PATH) })
}

// chtimes leaves a zero time as it is. AT_EMPTY_PATH is of Linux 5.8.
func (linuxSystem) chtimes(h handle, atime, mtime time.Time) error {
	times := []unix.Timespec{timespec(atime), timespec(mtime)}
	err := retry(func() error { return unix.UtimesNanoAt(int(h), "", times, unix.AT_EMPTY_PATH) })
	if err != syscall.EINVAL {
		return err
	}
	return retry(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(h), times, 0) })
}

func timespec(t time.Time) unix.Timespec {
	if t.IsZero() {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return ts
}

// sync opens a directory that was opened for resolution again, because fsync
// refuses O_PATH.
func (s linuxSystem) sync(h handle) error {
	err := retry(func() error { return unix.Fsync(int(h)) })
	if err != syscall.EBADF {
		return err
	}
	dir, err := openat(h, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer s.close(dir)
	return retry(func() error { return unix.Fsync(int(dir)) })
}

// flushTypes are the file systems that syncfs(2) brings to stable storage. For
// FUSE, network and FAT file systems the kernel answers 0 and no server and no
// disk is told to flush (Linux 6.18: fuse_sync_fs, sync_filesystem).
var flushTypes = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.TMPFS_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true, 0x2fc12fc1: true /* zfs */, 0xca451a4e: true, /* bcachefs */
}

// syncFS tells of writes that failed since Linux 5.8. It is EOPNOTSUPP where the
// call says nothing.
func (linuxSystem) syncFS(file handle) error {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(file), &st) }); err != nil || !flushTypes[int64(st.Type)] {
		return unix.EOPNOTSUPP
	}
	return retry(func() error { return unix.Syncfs(int(file)) })
}

// handleFID asks for a handle that only identifies (AT_HANDLE_FID, Linux 6.5):
// file systems that cannot be exported, overlay among them, have only this.
const handleFID = 0x200

// ioctlGetVersion is FS_IOC_GETVERSION, _IOR('v', 1, long) of linux/fs.h. The
// kernel fills in an int all the same.
const ioctlGetVersion = 2<<30 | unsafe.Sizeof(uintptr(0))<<16 | 'v'<<8 | 1

func (linuxSystem) identify(h handle) (identity.ID, error) {
	var stx unix.Statx_t
	if err := statx(h, "", &stx); err != nil {
		return identity.ID{}, err
	}
	st := fromStatx(&stx)
	id := identity.ID{Dev: st.dev, Ino: st.ino, Type: st.mode.Type()}
	if stx.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		id.Mount = stx.Mnt_id
	}
	if stx.Mask&unix.STATX_BTIME != 0 {
		id.Birth, id.HasBirth = st.birth.sec*1e9+st.birth.nsec, true
	}
	fh, _, err := unix.NameToHandleAt(int(h), "", unix.AT_EMPTY_PATH)
	if err != nil {
		fh, _, err = unix.NameToHandleAt(int(h), "", unix.AT_EMPTY_PATH|handleFID)
	}
	if err == nil {
		id.Handle = string(append(binary.BigEndian.AppendUint32(nil, uint32(fh.Type())), fh.Bytes()...))
		return id, nil
	}
	// The ioctl needs a descriptor that is open for more than resolution.
	var generation uint32
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(h), ioctlGetVersion, uintptr(unsafe.Pointer(&generation)))
	if errno == 0 {
		id.Gen, id.HasGen = uint64(generation), true
	}
	return id, nil
}
