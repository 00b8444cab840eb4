package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { children["advisory refused"] = acquireRefused }

// acquireRefused acquires where every flock fails, as a filter of seccomp(2) has it.
func acquireRefused() {
	r, args := childRoot(), advisoryArgs()
	number, _ := strconv.Atoi(args[0])
	errno := unix.Errno(number)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FLOCK},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		fmt.Println(e)
		return
	}
	_, err := AcquireAdvisory(context.Background(), r, "l", AdvisoryOptions{})
	fmt.Println("itself", errors.Is(err, errno), "busy", errors.Is(err, ErrBusy))
}

// Cases 136 and 138: what is not another holder is not reported as one.
func TestAdvisoryFailsForEver(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EDEADLK, unix.ENOLCK, unix.EBADF, unix.EIO, unix.ENOSYS} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			t.Parallel()
			startAdvisory(t, t.TempDir(), fmt.Sprint("refused ", int(errno))).hears("itself true busy false")
		})
	}
}
