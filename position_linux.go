package caproot

import (
	"strings"

	"golang.org/x/sys/unix"
)

// pathOf is where the kernel says that an open directory is, as text. It tells a
// directory that was moved from one that was not; where /proc is missing, or the
// directory is out of the process's sight, there is no answer.
func pathOf(dir handle) (path string, ok bool) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Readlink(procPath(dir), buf)
		if err != nil {
			return "", false
		}
		if n < len(buf) {
			path = string(buf[:n])
			return path, strings.HasPrefix(path, "/")
		}
		buf = make([]byte, 2*len(buf))
	}
}
