package lock

import "golang.org/x/sys/unix"

// callFlock is flock(2). Where nothing waits, neither for another holder nor for
// a server, it is as short as a lock in memory, and not to tell the scheduler of
// it saves a sixth of the time. A FUSE server may be a goroutine of this process.
func callFlock(fd, how int, brief bool) error {
	if !brief {
		return unix.Flock(fd, how)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_FLOCK, uintptr(fd), uintptr(how), 0); errno != 0 {
		return errno
	}
	return nil
}
