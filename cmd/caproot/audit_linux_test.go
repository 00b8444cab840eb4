package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAuditOfSpecialFilesAndModes(t *testing.T) {
	_, root := tree(t)
	must(t, os.Remove(filepath.Join(root, "out")))
	in := func(name string) string { return filepath.Join(root, name) }
	must(t, unix.Mkfifo(in("fifo"), 0o644))
	l, err := net.Listen("unix", in("socket"))
	must(t, err)
	defer l.Close()
	for _, dir := range []string{"open", "sticky"} {
		must(t, os.Mkdir(in(dir), 0o755))
	}
	must(t, os.Chmod(in("open"), 0o777))
	must(t, os.Chmod(in("sticky"), os.ModeSticky|0o777))
	must(t, os.WriteFile(in("s"), nil, 0o755))
	must(t, os.Chmod(in("s"), os.ModeSetuid|os.ModeSetgid|0o755))
	want := []string{"fifo fifo", "socket socket", "world-writable open  0777", "setuid s  6755", "setgid s  6755"}
	if err := unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil {
		want = append(want, "device null")
	} else {
		t.Logf("no device is tried: %v", err)
	}
	checkFlaws(t, flaws(t, exitNo, root), want...)
}

// case 173: what is mounted is told, and not walked.
func TestAuditOfMounts(t *testing.T) {
	base, root := tree(t)
	must(t, os.Remove(filepath.Join(root, "out")))
	point := filepath.Join(root, "point")
	must(t, os.Mkdir(point, 0o755))
	if err := unix.Mount(filepath.Join(base, "outside"), point, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no mount: %v", err)
	}
	defer unix.Unmount(point, unix.MNT_DETACH)
	must(t, os.Symlink("/etc", filepath.Join(base, "outside", "evil")))
	checkFlaws(t, flaws(t, exitNo, "--mounts", "cross", root), "mount point")
}

// case 170: a directory that cannot be read is not an empty one.
func TestAuditOfUnreadable(t *testing.T) {
	base, root := tree(t)
	for _, dir := range []string{base, filepath.Dir(base)} {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.Remove(filepath.Join(root, "out")))
	must(t, os.Chmod(filepath.Join(root, "dir"), 0))
	cmd := command("audit", root)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if got := finish(t, cmd); got.code != exitFailed || !strings.Contains(got.err, `caproot: permission: walk "dir"`) {
		t.Errorf("audit: %+v", got)
	}
}

// A record is stale when its holder is killed, and not before.
func TestAuditOfKilledHolder(t *testing.T) {
	_, root := tree(t)
	must(t, os.Remove(filepath.Join(root, "out")))
	h := hold(t, filepath.Join(root, "f"))
	if got := flaws(t, exitDone, root); got != nil {
		t.Errorf("beside a living holder: %q", got)
	}
	must(t, h.Process.Kill())
	_ = h.Wait()
	checkFlaws(t, flaws(t, exitNo, root), "stale-lock f.lock  dead")
	if got := caprootRun(t, "", "lock-reclaim", filepath.Join(root, "f")); got.code != 0 {
		t.Errorf("lock-reclaim: %+v", got)
	}
	if got := flaws(t, exitDone, root); got != nil {
		t.Errorf("after the reclaim: %q", got)
	}
}

// A stage that its process has open is in use, however old it looks.
func TestAuditSparesLiveStage(t *testing.T) {
	_, root := tree(t)
	must(t, os.Remove(filepath.Join(root, "out")))
	stage := filepath.Join(root, ".caproot-stage-"+stageRandom)
	aged(t, stage, "half")
	f, err := os.Open(stage)
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	if got := flaws(t, exitDone, root); got != nil {
		t.Errorf("of a locked stage: %q", got)
	}
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	checkFlaws(t, flaws(t, exitNo, root), "leftover-stage .caproot-stage-"+stageRandom)
}
