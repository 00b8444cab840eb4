package testfs

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instruction numbers of a seccomp program, which reads struct seccomp_data.
const (
	loadWord  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpBits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	give      = unix.BPF_RET | unix.BPF_K

	offsetNumber    = 0
	offsetThirdWord = 16 + 2*8 // low half of the third argument, little endian
)

// Without makes the kernel answer this whole process, until its end, as one
// does that lacks the features: "tmpfile", "flock", "openat2", with commas.
func Without(features string) error {
	for feature := range strings.SplitSeq(features, ",") {
		var err error
		switch feature {
		case "":
		case "tmpfile": // as overlay did before Linux 6.1, and most FUSE still do
			err = install([]unix.SockFilter{
				{Code: loadWord, K: offsetNumber},
				{Code: jumpEqual, K: unix.SYS_OPENAT, Jf: 3},
				{Code: loadWord, K: offsetThirdWord},
				{Code: jumpBits, K: unix.O_TMPFILE &^ unix.O_DIRECTORY, Jf: 1},
				{Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)},
				{Code: give, K: unix.SECCOMP_RET_ALLOW},
			})
		case "flock":
			err = install(onCall(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS), unix.SYS_FLOCK))
		case "openat2":
			err = install(onCall(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS), unix.SYS_OPENAT2))
		default:
			err = fmt.Errorf("unknown feature %q", feature)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onCall is a program with one verdict for the listed calls.
func onCall(verdict uint32, calls ...uint32) []unix.SockFilter {
	program := []unix.SockFilter{{Code: loadWord, K: offsetNumber}}
	for i, call := range calls {
		program = append(program, unix.SockFilter{Code: jumpEqual, K: call, Jt: uint8(len(calls) - i)})
	}
	return append(program,
		unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: give, K: verdict})
}

func install(program []unix.SockFilter) error {
	_, err := seccomp(program, unix.SECCOMP_FILTER_FLAG_TSYNC)
	return err
}

// seccomp gives the program to all threads of the process.
func seccomp(program []unix.SockFilter, flags uintptr) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
