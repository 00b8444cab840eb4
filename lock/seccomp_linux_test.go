package lock

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// prepareProcess takes from this process what its environment says.
func prepareProcess() {
	if os.Getenv("CAPROOT_NO_TMPFILE") != "" {
		refuseTmpfile()
	}
}

// refuseTmpfile takes files without a name away from the whole process, as a
// file system without them would, so that records are made by the other maker.
func refuseTmpfile() {
	const (
		tsync  = 1 // SECCOMP_FILTER_FLAG_TSYNC
		number = 0 // of seccomp_data
		flags  = 16 + 2*8
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_OPENAT},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.O_TMPFILE &^ unix.O_DIRECTORY},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EOPNOTSUPP)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                           // SECCOMP_RET_ALLOW
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, tsync, uintptr(unsafe.Pointer(&prog))); e != 0 {
		panic(fmt.Sprint("seccomp: ", e))
	}
}
