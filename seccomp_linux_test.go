package caproot

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/internal/seccomp"
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

func refuseOpenat2(errno syscall.Errno) {
	seccomp.Refuse(seccomp.Refusal{Call: unix.SYS_OPENAT2, Errno: errno})
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
