package main

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bareOpen is what opening and closing name costs the kernel: openat2 with the
// rules of Workspace, and close.
func bareOpen(dir *os.Root, name string) []contender {
	return bare(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, func(uintptr) error { return nil })
}

// bareStat is openat2, fstat and close: RESOLVE_BENEATH looks at nothing without
// opening it.
func bareStat(dir *os.Root, name string) []contender {
	return bare(dir, name, unix.O_PATH, func(fd uintptr) error {
		var st unix.Stat_t
		return unix.Fstat(int(fd), &st)
	})
}

func bare(dir *os.Root, name string, flags uint64, use func(fd uintptr) error) []contender {
	top, err := dir.Open(".")
	if err != nil {
		return []contender{{"bare calls", func() error { return err }}}
	}
	path := append([]byte(name), 0)
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	at := top.Fd()
	return []contender{{"bare calls", func() error {
		fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT2, at, uintptr(unsafe.Pointer(&path[0])),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		runtime.KeepAlive(top)
		if errno != 0 {
			return errno
		}
		if err := use(fd); err != nil {
			return err
		}
		return unix.Close(int(fd))
	}}}
}
