package caproot

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// pathOf is where the system says that an open directory is, as text. It tells
// a directory that was moved from one that was not.
func pathOf(dir handle) (path string, ok bool) {
	buf := make([]uint16, windows.MAX_PATH)
	for {
		n, err := windows.GetFinalPathNameByHandle(windows.Handle(dir), &buf[0], uint32(len(buf)), 0)
		if err != nil || n == 0 {
			return "", false
		}
		if int(n) < len(buf) {
			return syscall.UTF16ToString(buf[:n]), true
		}
		buf = make([]uint16, n+1)
	}
}
