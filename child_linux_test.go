package caproot

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childOf is set in a child process to the test it runs.
const childOf = "CAPROOT_TEST_CHILD"

// skipReason is what a skipped test said last.
var skipReason = regexp.MustCompile(`\w+_test\.go:\d+: .*`)

// inChild runs the calling test again in a process of its own, with attr, and
// returns false in the parent once the child is done. In the child it returns
// true at once:
//
//	if !inChild(t, attr) { return }
func inChild(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(childOf) == t.Name() {
		return true
	}
	// Another user cannot reach the binary by its path in a private directory.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), childOf+"="+t.Name())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("no child process with %+v: %v", *attr, err)
	case err != nil:
		t.Errorf("child: %v\n%s", err, text)
	case strings.Contains(text, "--- SKIP: "+t.Name()+" "):
		t.Skipf("in the child: %s", skipReason.FindString(text))
	case !strings.Contains(text, "--- PASS: "+t.Name()+" "):
		t.Errorf("the child did not run the test:\n%s", text)
	}
	return false
}

// asNobody runs the calling test as a user without rights of his own.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	return inChild(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// ownMounts runs the calling test where its mounts are its own: they end with
// the process, so that no cleanup can ever descend into one.
func ownMounts(t *testing.T) bool {
	t.Helper()
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return inChild(t, attr)
}

// bind mounts from, a file or a directory, at to until the test ends.
func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Skipf("no bind mount: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(to, unix.MNT_DETACH)) })
}

// within fails the whole run when f hangs. It bounds a hang, not a duration.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	watchdog := time.AfterFunc(time.Minute, func() { panic(what + " hangs") })
	defer watchdog.Stop()
	f()
}
