package lock

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A full file system is an error of its own name, and leaves nothing of the
// attempt: no record, no descriptor, no place in the line. With room again, the
// next one has the lock.
func TestNoSpace(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount tmpfs: %v", err)
	}
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	r, m := openRoot(t, dir), NewManager(t.Name())
	lease := acquireTest(t, r, LeaseOptions{})
	must(t, lease.Release())
	err := os.WriteFile(dir+"/fill", make([]byte, 1<<20), 0o600)
	want(t, "fill", err, unix.ENOSPC)
	files := openFDs(t)
	for what, o := range map[string]Options{"unnamed": {}, "named": {KeepRecord: true}, "durable": {Durable: true}} {
		_, err := m.Acquire(deadline(t), r, "target", o)
		want(t, what, err, unix.ENOSPC)
	}
	_, err = AcquireLease(deadline(t), r, "target", LeaseOptions{})
	want(t, "lease", err, unix.ENOSPC)
	_, err = AcquireAdvisory(deadline(t), r, "advisory", AdvisoryOptions{})
	want(t, "advisory", err, unix.ENOSPC)
	wantNames(t, dir, ".caproot", "fill")
	if now := openFDs(t); now != files {
		t.Errorf("%d descriptors, before %d", now, files)
	}
	if held := m.Held(); len(held) != 0 || m.watching() != 0 {
		t.Errorf("held: %+v", held)
	}
	must(t, os.Remove(dir+"/fill"))
	l, err := m.TryAcquire(deadline(t), r, "target", Options{})
	must(t, err)
	must(t, l.Release())
	lease, err = AcquireLease(deadline(t), r, "target", LeaseOptions{})
	must(t, err)
	must(t, lease.Release())
	wantNames(t, dir, ".caproot")
}
