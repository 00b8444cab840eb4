package lock

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracedCalls are those that can change what others see.
var tracedCalls = map[uint64]bool{
	unix.SYS_OPENAT: true, unix.SYS_OPENAT2: true, unix.SYS_CLOSE: true, unix.SYS_FLOCK: true, unix.SYS_PWRITE64: true,
	unix.SYS_LINKAT: true, unix.SYS_UNLINKAT: true, unix.SYS_RENAMEAT2: true,
}

// killAtCall runs a scenario of this binary and kills it before its n-th call
// after it said something. It reports whether it came to that call.
func killAtCall(t *testing.T, dir, scenario string, n int, env ...string) (killed bool) {
	t.Helper()
	calls := 0
	status := trace(t, dir, scenario, func(_ int, nr uint64) (kill bool) {
		if tracedCalls[nr] {
			calls++
		}
		killed = killed || calls == n
		return killed
	}, env...)
	if !killed && status != 0 {
		t.Fatalf("child failed with status %d", status)
	}
	return killed
}

// trace runs a scenario of this binary and stops it before each of its calls
// after it said something, for at to act, and to say whether it is killed there.
func trace(t *testing.T, dir, scenario string, at func(tid int, nr uint64) (kill bool), env ...string) (status int) {
	t.Helper()
	// All requests to a tracee must come from one thread (ptrace(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), childVar+"="+scenario), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("no right to trace a child")
		}
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer cmd.Process.Release()
	var ws unix.WaitStatus
	_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
	must(t, err)
	must(t, unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL))
	must(t, unix.PtraceSyscall(pid, 0))
	for begun, killed := false, false; ; {
		tid, err := unix.Wait4(-pid, &ws, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		must(t, err)
		switch {
		case tid == pid && (ws.Exited() || ws.Signaled()):
			return ws.ExitStatus()
		case !ws.Stopped() || killed:
			continue
		}
		deliver := 0
		switch sig := ws.StopSignal(); {
		case sig == unix.SIGTRAP|0x80:
			call, entered := callOf(tid)
			switch {
			case !entered:
			case !begun:
				begun = call.nr == unix.SYS_WRITE && call.args[0] == 1
			case at(tid, call.nr):
				must(t, unix.Kill(pid, unix.SIGKILL))
				killed = true
				continue
			}
		case sig != unix.SIGTRAP && sig != unix.SIGSTOP:
			deliver = int(sig)
		}
		// The thread may have gone since.
		if err := unix.PtraceSyscall(tid, deliver); err != nil && err != unix.ESRCH {
			t.Fatal(err)
		}
	}
}

// callInfo is struct ptrace_syscall_info of linux/ptrace.h at an entry.
type callInfo struct {
	op     uint8
	_      [3]uint8
	_      uint32
	ip, sp uint64
	nr     uint64
	args   [6]uint64
}

func callOf(tid int) (info callInfo, entered bool) {
	const getSyscallInfo = 0x420e // Linux 5.3
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	return info, errno == 0 && info.op == 1
}

// A process that is killed before any of its calls leaves nothing that the next
// one does not clear by itself: in a first acquisition, in a reclaim of a
// dead record, and in a release.
func TestKillAtEveryCall(t *testing.T) {
	for situation, prepare := range map[string]func(t *testing.T, dir string, env ...string){
		"fresh":   func(*testing.T, string, ...string) {},
		"reclaim": leaveDeadRecord,
		"guarded": leavesDeadGuard(),
	} {
		t.Run(situation, func(t *testing.T) {
			eachMaker(t, func(t *testing.T, o Options, env ...string) {
				for n := 1; ; n++ {
					dir := t.TempDir()
					prepare(t, dir, env...)
					killed := killAtCall(t, dir, "traced", n, env...)
					r := openRoot(t, dir)
					l, err := TryAcquire(deadline(t), r, "target", Options{})
					if err != nil {
						t.Fatalf("killed before call %d: %v, left %q", n, err, names(t, dir))
					}
					must(t, l.Release())
					_, err = Sweep(r, ".")
					must(t, err)
					if left := names(t, dir); len(left) > 0 {
						t.Fatalf("killed before call %d: left %q", n, left)
					}
					must(t, r.Close())
					if !killed {
						t.Logf("%d calls", n-1)
						return
					}
				}
			})
		})
	}
}

func leaveDeadRecord(t *testing.T, dir string, env ...string) {
	c := start(t, dir, "hold", env...)
	c.hears("held")
	c.kill()
}

// leavesDeadGuard leaves what a process leaves that dies inside of a reclaim: a
// guard, and the dead record that it was about to remove. The call at which
// that is so is the same each time.
func leavesDeadGuard() func(t *testing.T, dir string, env ...string) {
	at := 1
	return func(t *testing.T, dir string, env ...string) {
		for ; at < 100; at++ {
			if !exists(t, dir+"/target.lock") {
				leaveDeadRecord(t, dir)
			}
			killAtCall(t, dir, "traced", at)
			if exists(t, dir+"/target.lock.reclaim") && exists(t, dir+"/target.lock") {
				return
			}
		}
		t.Fatal("no call at which a guard is left")
	}
}

func exists(t *testing.T, path string) bool {
	_, err := os.Lstat(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}
