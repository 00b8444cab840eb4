// Package seccomp takes system calls away from a test process, as container
// runtimes do, so that what happens without them is seen on a real kernel.
package seccomp

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refusal is a system call that is answered with an error.
type Refusal struct {
	Call  uint32
	Errno syscall.Errno
	// Arg and Mask narrow it to calls in which argument Arg has a bit of Mask.
	// Mask zero means every call.
	Arg, Mask uint32
}

// Refuse installs the filter on all threads of the process, for good. It panics
// when the kernel does not take it.
func Refuse(r Refusal) {
	const (
		tsync     = 1 // SECCOMP_FILTER_FLAG_TSYNC
		number    = 0 // of seccomp_data
		arguments = 16
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: r.Call},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: arguments + 8*r.Arg},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: r.Mask},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(r.Errno)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                   // SECCOMP_RET_ALLOW
	}
	if r.Mask == 0 {
		filter[2] = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_IMM, K: 1}
		filter[3].K = 1
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(fmt.Sprint("prctl: ", err))
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, tsync, uintptr(unsafe.Pointer(&prog))); e != 0 {
		panic(fmt.Sprint("seccomp: ", e))
	}
}
