package lock

import (
	"os"
	"runtime"

	"golang.org/x/sys/windows"
)

// lockFile takes the lock on a byte of the open file, the one of flock. Without
// wait it answers errLocked when another open file has it.
func lockFile(f *os.File, shared, wait, _ bool) error {
	var flags uint32
	if !shared {
		flags = windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	handle, region := windows.Handle(f.Fd()), overlapped()
	err := windows.LockFileEx(handle, flags, 0, 1, 0, region)
	if err == windows.ERROR_IO_PENDING {
		// A handle for asynchronous work: the system waits, and we for it.
		var n uint32
		err = windows.GetOverlappedResult(handle, region, &n, true)
	}
	runtime.KeepAlive(f)
	if err == windows.ERROR_LOCK_VIOLATION {
		return errLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}

func unlockFile(f *os.File, _ bool) error { return os.NewSyscallError("UnlockFileEx", funlock(f)) }

// stillLocked has nothing to ask: the lock goes with its handle only.
func stillLocked(*os.File, bool) error { return nil }
