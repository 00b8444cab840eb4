package caproot

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be the process that gets killed, and takes
// openat2 away from the whole run when CAPROOT_NO_OPENAT2 names an errno.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CAPROOT_PUT_LOOP"); dir != "" {
		putLoop(dir)
	}
	switch os.Getenv("CAPROOT_NO_OPENAT2") {
	case "ENOSYS":
		refuseOpenat2(unix.ENOSYS)
	case "EPERM":
		refuseOpenat2(unix.EPERM)
	}
	os.Exit(m.Run())
}

// refuseOpenat2 installs a filter as container runtimes do (seccomp(2)) on all
// threads of the process.
func refuseOpenat2(errno syscall.Errno) {
	const tsync = 1 // SECCOMP_FILTER_FLAG_TSYNC
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_OPENAT2},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(errno)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                 // SECCOMP_RET_ALLOW
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, tsync, uintptr(unsafe.Pointer(&prog))); e != 0 {
		panic(e)
	}
	fmt.Println("openat2 answers", errno)
}

// cases 19, 20: without openat2 the walk is used, unless the policy wants the
// kernel's word. Run with CAPROOT_NO_OPENAT2 set.
func TestKernelRequired(t *testing.T) {
	p := Workspace()
	p.Containment = KernelAtomic
	r, err := Open(t.TempDir(), p)
	if os.Getenv("CAPROOT_NO_OPENAT2") != "" {
		want(t, "Open", err, ErrUnsupported)
		return
	}
	if !kernelResolves() {
		t.Skip("no openat2 on this system")
	}
	must(t, err)
	defer r.Close()
	receipt, err := r.Put("f", nil, PutOptions{})
	must(t, err)
	if receipt.Containment != KernelAtomic {
		t.Errorf("containment %v", receipt.Containment)
	}
}
