package lock

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A contender is stopped right after one of its calls, and another process does
// something. It must not believe that it has the lock, and leave what the other
// made.
func TestAttackBetweenCalls(t *testing.T) {
	if os.Getenv("CAPROOT_NO_TMPFILE") != "" {
		t.Skip("its calls are those by which a record without a name is made")
	}
	peer := peerRecord(t, fields{"pid": 1})
	plantPeer := func(t *testing.T, dir string) {
		must(t, os.WriteFile(dir+"/.new", peer, 0o600))
		must(t, os.Rename(dir+"/.new", dir+"/target.lock"))
	}
	plantGuard := func(t *testing.T, dir string) { must(t, os.Mkdir(dir+"/target.lock.reclaim", 0o755)) }
	for what, c := range map[string]struct {
		dead   bool // there is a dead record to replace
		after  uint64
		nth    int
		attack func(t *testing.T, dir string)
		left   []string
	}{
		// A3, A4: one's own record is replaced, removed, or a guard came up.
		"own record replaced": {false, unix.SYS_LINKAT, 1, plantPeer, []string{"target.lock"}},
		"own record removed":  {false, unix.SYS_LINKAT, 1, func(t *testing.T, dir string) { must(t, os.Remove(dir+"/target.lock")) }, nil},
		"guard came up":       {false, unix.SYS_LINKAT, 1, plantGuard, []string{"target.lock.reclaim"}},
		// A6: the dead record is locked; a peer replaces it.
		"dead record replaced when locked": {true, unix.SYS_FLOCK, 2, plantPeer, []string{"target.lock"}},
		// R1: the guard is there; a peer that ignores it replaces the dead record.
		"dead record replaced under the guard": {true, unix.SYS_LINKAT, 2, plantPeer, []string{"target.lock"}},
		// R3: the dead record is unlinked; a peer is first.
		"peer is first": {true, unix.SYS_UNLINKAT, 1, plantPeer, []string{"target.lock"}},
		// R4: one's own record is linked; a peer replaces it.
		"own record replaced in a reclaim": {true, unix.SYS_LINKAT, 3, plantPeer, []string{"target.lock"}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if c.dead {
				leaveDeadRecord(t, dir)
			}
			seen, thread, done := 0, 0, false
			status := trace(t, dir, "try", func(tid int, nr uint64) bool {
				// The next call of that thread: the one before has returned.
				if seen == c.nth && tid == thread && !done {
					c.attack(t, dir)
					done = true
				}
				if nr == c.after {
					seen, thread = seen+1, tid
				}
				return false
			})
			if !done {
				t.Fatal("it never came to that call")
			}
			if status != 0 {
				t.Error("the contender was not refused")
			}
			wantNames(t, dir, c.left...)
			if exists(t, dir+"/target.lock") {
				wantFile(t, dir+"/target.lock", peer)
			}
		})
	}
}
