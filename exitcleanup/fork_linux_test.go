package exitcleanup

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

func init() { systemScenarios["forks"] = forks }

// forks makes a child by a raw fork. Only the calling thread lives on in it, and
// what other threads had locked stays locked, so it must not come near the
// scheduler or the allocator: it only asks what keeps its entries from running.
func forks() {
	registerMark()
	runtime.LockOSThread()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		panic(errno)
	}
	if pid == 0 {
		status := uintptr(0)
		if current.registry.owner.is(owner{pid: os.Getpid()}) {
			status = 1
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, status, 0, 0)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(int(pid), &status, 0, nil); err != nil || !status.Exited() || status.ExitStatus() != 0 {
		say("the forked child takes itself for its parent")
	}
	Exit(0)
}

// Case 159.
func TestForkedChildIsAnotherProcess(t *testing.T) {
	c := start(t, "forks")
	c.wantCode(0)
	c.wantGone(mark)
	c.wantSilence()
}

// The kernel does not let the default action of a signal end process 1.
func TestSignalToProcessOne(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a new PID namespace needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	c := startCommand(t, "signal with main", cmd)
	c.expect("ready")
	c.signal(syscall.SIGTERM)
	c.expect("ended by signal: terminated")
	c.wantCode(2)
	c.wantGone(mark)
}
