package lock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { children["spawn"] = childSpawn }

// childSpawn holds, and starts a program that outlives it.
func childSpawn() {
	_, err := Acquire(context.Background(), childRoot(), "target", childOptions())
	childMust(err)
	long := exec.Command("sleep", "60")
	childMust(long.Start())
	say(fmt.Sprint(long.Process.Pid))
	hear()
}

// case 133 for records: a program that the holder has started inherits nothing, so
// a killed holder is proved dead while its child lives on.
func TestKilledHolderWithChild(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("no sleep(1)")
	}
	eachMaker(t, func(t *testing.T, o Options, env ...string) {
		dir := t.TempDir()
		r, m := openRoot(t, dir), NewManager(t.Name())
		c := start(t, dir, "spawn", env...)
		line, err := c.lines.ReadString('\n')
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		must(t, err)
		defer unix.Kill(pid, unix.SIGKILL)
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		must(t, err)
		for _, fd := range fds {
			if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); strings.HasPrefix(to, dir) {
				t.Errorf("the child has %s", to)
			}
		}
		must(t, c.cmd.Process.Kill())
		_, _ = c.cmd.Process.Wait()
		l, err := m.TryAcquire(deadline(t), r, "target", o)
		must(t, err)
		must(t, l.Release())
		must(t, m.Drain(deadline(t)))
		must(t, unix.Kill(pid, 0)) // it lived all the while
		_, err = Sweep(r, ".")
		must(t, err)
		wantNames(t, dir)
	})
}
