//go:build linux || darwin || freebsd

package caproot

import (
	"io/fs"
	"syscall"
)

// numbers are what os.SameFile compares.
func numbers(i fs.FileInfo) (n [2]uint64, ok bool) {
	if i, own := i.(*fileInfo); own {
		return [2]uint64{i.st.dev, i.st.ino}, true
	}
	st, ok := i.Sys().(*syscall.Stat_t)
	if ok {
		n = [2]uint64{uint64(st.Dev), uint64(st.Ino)}
	}
	return n, ok
}

func (t stamp) timespec() syscall.Timespec { return syscall.NsecToTimespec(t.sec*1e9 + t.nsec) }

func setInt[T, F ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64](to *T, from F) { *to = T(from) }
