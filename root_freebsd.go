package caproot

import (
	"io/fs"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pathFlags is O_PATH of FreeBSD 13.1 (fcntl.h).
const pathFlags = 0x00400000

// pathLeafFlags open a link itself.
const pathLeafFlags = unix.O_NOFOLLOW

// procFD is the directory of the process's own descriptors, beyond the first
// three only where fdescfs is mounted.
const procFD = "/dev/fd/"

type freebsdSystem struct{ bsdSystem }

func hostSystem() system { return freebsdSystem{} }

// rename has no flags.
func (freebsdSystem) rename(from handle, name string, to handle, newName string, how renameHow) error {
	if how != replacing {
		return unix.ENOTSUP
	}
	return retry(func() error { return unix.Renameat(int(from), name, int(to), newName) })
}

// emptyPath is AT_EMPTY_PATH of FreeBSD 13.1 (fcntl.h): what fchmod and its kind
// refuse to a descriptor opened with O_PATH, as EBADF, these do by it (open(2)).
const emptyPath = 0x4000

func (s freebsdSystem) chmod(h handle, mode fs.FileMode) error {
	err := s.bsdSystem.chmod(h, mode)
	if err != syscall.EBADF {
		return err
	}
	return retry(func() error { return unix.Fchmodat(int(h), "", unixMode(mode), emptyPath) })
}

func (s freebsdSystem) chown(h handle, uid, gid int) error {
	err := s.bsdSystem.chown(h, uid, gid)
	if err != syscall.EBADF {
		return err
	}
	return retry(func() error { return unix.Fchownat(int(h), "", uid, gid, emptyPath) })
}

func (s freebsdSystem) chtimes(h handle, atime, mtime time.Time) error {
	err := s.bsdSystem.chtimes(h, atime, mtime)
	if err != syscall.EBADF {
		return err
	}
	st, err := s.stat(h, "", false)
	if err != nil {
		return err
	}
	times := []unix.Timespec{timespec(atime, st.atime), timespec(mtime, st.mtime)}
	return retry(func() error { return unix.UtimesNanoAt(int(h), "", times, emptyPath) })
}

func timespec(t time.Time, present stamp) unix.Timespec {
	if t.IsZero() {
		t = present.time()
	}
	return unix.NsecToTimespec(t.UnixNano())
}

func flush(h handle) error { return unix.Fsync(int(h)) }

// resolveBeneath is O_RESOLVE_BENEATH of FreeBSD 13.0 (fcntl.h).
const resolveBeneath = 0x00800000

// guards are the flags of this kernel that refuse a way out inside of a name,
// which a walk by single components does not ask for in the first place.
var guards = sync.OnceValue(func() int { return guardBeneath(resolveBeneath) })
