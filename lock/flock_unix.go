//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// openNonBlocking keeps the open of a FIFO, where the policy of the Root lets it
// through, from waiting for a peer.
const openNonBlocking = unix.O_NONBLOCK

// freesName: the name of a removed file can be used while the file is open.
const freesName = true

// flock takes the system's exclusive lock on the open file. Without wait it
// answers errLocked when another open file has it.
func flock(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		runtime.KeepAlive(f)
		switch err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errLocked
		default:
			return err
		}
	}
}

// funlock drops the lock explicitly: a child that came to share the descriptor
// would keep it beyond a close.
func funlock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_UN)
	runtime.KeepAlive(f)
	return err
}

// relock takes the lock that the open file should have. It has it already, so
// the system changes nothing; errLocked says that another one has got it.
func relock(f *os.File) error { return flock(f, false) }

// look describes the open file.
func look(f *os.File) (object, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	runtime.KeepAlive(f)
	if err != nil {
		return object{}, os.NewSyscallError("fstat", err)
	}
	return object{
		id: recordID{uint64(st.Dev), st.Ino}, nlink: uint64(st.Nlink), size: st.Size,
		regular: st.Mode&unix.S_IFMT == unix.S_IFREG, directory: st.Mode&unix.S_IFMT == unix.S_IFDIR,
		uid: st.Uid, mtime: time.Unix(int64(st.Mtim.Sec), int64(st.Mtim.Nsec)),
	}, nil
}

// foreign reports whether the object is another user's.
func (o *object) foreign() bool { return o.uid != uint32(os.Geteuid()) }

// touch sets the time of modification through the descriptor.
func touch(f *os.File, now time.Time) error {
	tv := unix.NsecToTimeval(now.UnixNano())
	err := unix.Futimes(int(f.Fd()), []unix.Timeval{tv, tv})
	runtime.KeepAlive(f)
	return os.NewSyscallError("futimes", err)
}

// tornDown: a name that is removed is gone at once.
func tornDown(error) bool { return false }
