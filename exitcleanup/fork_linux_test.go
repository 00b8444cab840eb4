package exitcleanup

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
)

func init() { systemScenarios["forks"] = forks }

// forks makes a child by a raw fork. Only the calling thread lives on in it, so
// nothing there may wait for another one: hence no collection of garbage, and
// no entry that would run if the child took the mark for its own.
func forks() {
	registerMark()
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		panic(errno)
	}
	if pid == 0 {
		// Should it hang, it must not outlive its parent with the pipes of the test.
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		Exit(0)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(int(pid), &status, 0, nil); err != nil || !status.Exited() || status.ExitStatus() != 0 {
		say("the forked child did not exit by itself")
	}
	if _, err := os.Lstat(mark); err != nil {
		say("the forked child removed the mark")
	}
	Exit(0)
}

// Case 159.
func TestForkedChildDoesNotRunEntriesOfParent(t *testing.T) {
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
