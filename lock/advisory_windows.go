package lock

import "os"

// lockFile takes the lock on a byte of the open file, the one of flock. Without
// wait it answers errLocked when another open file has it.
func lockFile(f *os.File, shared, wait, _ bool) error {
	err := rangeLock(f, shared, wait)
	if err == errLocked {
		return err
	}
	return os.NewSyscallError("LockFileEx", err)
}

func unlockFile(f *os.File, _ bool) error { return os.NewSyscallError("UnlockFileEx", funlock(f)) }

// stillLocked has nothing to ask: the lock goes with its handle only.
func stillLocked(*os.File, bool) error { return nil }
