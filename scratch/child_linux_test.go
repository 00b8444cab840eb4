package scratch

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// againVar is set in a child process to the test that it runs again.
const againVar = "SCRATCH_TEST_AGAIN"

var skipReason = regexp.MustCompile(`\w+_test\.go:\d+: .*`)

// inChild runs the calling test again in a process of its own, with attr, and
// returns false in the parent once that is done. In the child it returns true.
func inChild(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(againVar) == t.Name() {
		return true
	}
	// Another user cannot reach the binary by its path in a private directory.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), againVar+"="+t.Name())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
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

// asNobody runs the calling test as a user whom modes keep out.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	return inChild(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// ownMounts runs the calling test where its mounts are its own and end with it.
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

func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

func openFDs(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}

// wantFDs runs f and wants as many descriptors after it as before.
func wantFDs(t *testing.T, what string, f func()) {
	t.Helper()
	before := openFDs(t)
	f()
	if now := openFDs(t); now != before {
		t.Errorf("%s: %d descriptors, %d before", what, now, before)
	}
}
