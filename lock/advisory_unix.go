//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Where flock is made of POSIX locks, on NFS and some FUSE file systems, it can
// fail for reasons of others: EDEADLK when the server sees a cycle among
// processes where there is none among threads, ENOLCK when its table is full for
// a moment. Nothing says when that is over: 8 tries take a quarter of a second.
const (
	spuriousTries = 8
	spuriousPause = 2 * time.Millisecond // doubled each time
)

// lockFile takes the lock on the open file. Without wait it answers errLocked
// when another open file has it. Local says that no server is asked.
func lockFile(f *os.File, shared, wait, local bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	if !wait {
		how |= unix.LOCK_NB
	}
	fd := int(f.Fd())
	err := callFlock(fd, how, local && !wait)
	if err != nil && err != unix.EWOULDBLOCK {
		err = persist(err, func() error { return unix.Flock(fd, how) })
	}
	runtime.KeepAlive(f)
	switch err {
	case unix.EWOULDBLOCK:
		return errLocked
	case unix.ENOSYS, unix.EOPNOTSUPP:
		return fmt.Errorf("%w: %w", ErrUnsupported, os.NewSyscallError("flock", err))
	}
	return os.NewSyscallError("flock", err)
}

func unlockFile(f *os.File, local bool) error {
	err := callFlock(int(f.Fd()), unix.LOCK_UN, local)
	runtime.KeepAlive(f)
	return os.NewSyscallError("flock", err)
}

// stillLocked takes the lock again, which changes nothing while it is held.
func stillLocked(f *os.File, shared bool) error { return lockFile(f, shared, false, false) }

// persist repeats a call that failed with err for as long as its failure may be
// a passing one. EINTR says that nothing happened, however often.
func persist(err error, call func() error) error {
	for tries := 1; ; {
		switch {
		case err == unix.EINTR:
		case spurious(err) && tries < spuriousTries:
			time.Sleep(spuriousPause << (tries - 1))
			tries++
		default:
			return err
		}
		err = call()
	}
}

func spurious(err error) bool { return err == unix.EDEADLK || err == unix.ENOLCK || err == errRestart }

// errRestart is ERESTARTSYS, an errno of the Linux kernel that programs never
// see but for defects of file systems such as FUSE ones.
const errRestart = unix.Errno(512)
