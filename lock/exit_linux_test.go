package lock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot/exitcleanup"
)

func init() {
	children["exit"] = childExit
	children["parent"] = childParent
	children["idle"] = func() { exitcleanup.Exit(0) }
}

// childExit holds three locks and ends as HOW says.
func childExit() {
	exitcleanup.HandleSignals()
	exitcleanup.Main(func(ctx context.Context) int {
		r := childRoot()
		for target, o := range map[string]Options{"target": {}, "retained": {RetainOnExit: true}, "kept": {KeepRecord: true}} {
			_, err := Acquire(ctx, r, target, o)
			childMust(err)
		}
		say("held")
		how := os.Getenv("HOW")
		if !strings.HasPrefix(how, "SIG") {
			hear()
		}
		switch how {
		case "return":
			return 7
		case "Exit":
			exitcleanup.Exit(7)
		case "os.Exit":
			os.Exit(7)
		}
		<-ctx.Done()
		return 7
	})
}

// cases 157, 163: the end of a program in order takes its locks away, through
// the root, and a signal stays the cause of the end. os.Exit takes nothing away,
// and the next contender has the lock at once all the same.
func TestExit(t *testing.T) {
	for how, c := range map[string]struct {
		sig    os.Signal
		status int
		left   []string
	}{
		"return":  {nil, 7, []string{"retained.lock"}},
		"Exit":    {nil, 7, []string{"retained.lock"}},
		"os.Exit": {nil, 7, []string{"kept.lock", "retained.lock", "target.lock"}},
		"SIGTERM": {syscall.SIGTERM, -1, []string{"retained.lock"}},
		"SIGINT":  {syscall.SIGINT, -1, []string{"retained.lock"}},
		"SIGHUP":  {syscall.SIGHUP, -1, []string{"retained.lock"}},
	} {
		t.Run(how, func(t *testing.T) {
			if c.sig != nil && signal.Ignored(c.sig) {
				t.Skip("the process was started with this signal ignored, as by nohup")
			}
			dir := t.TempDir()
			r, m := openRoot(t, dir), NewManager(t.Name())
			child := start(t, dir, "exit", "HOW="+how)
			child.hears("held")
			if c.sig != nil {
				must(t, child.cmd.Process.Signal(c.sig))
			} else {
				child.tell()
			}
			child.cmd.Wait()
			state := child.cmd.ProcessState
			if state.ExitCode() != c.status {
				t.Errorf("status %v", state)
			}
			if ws := state.Sys().(syscall.WaitStatus); c.sig != nil && ws.Signal() != c.sig {
				t.Errorf("ended by %v, want %v", ws.Signal(), c.sig)
			}
			wantNames(t, dir, c.left...)
			for _, target := range []string{"target", "retained", "kept"} {
				l, err := m.TryAcquire(deadline(t), r, target, Options{})
				must(t, err)
				must(t, l.Release())
			}
			wantNames(t, dir)
		})
	}
}

// case 163: what changed hands is not the exit's to remove.
func TestExitLeavesForeign(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, "exit", "HOW=return")
	c.hears("held")
	must(t, os.WriteFile(dir+"/new", []byte("{}"), 0o600))
	must(t, os.Rename(dir+"/new", dir+"/target.lock"))
	c.tell()
	c.cmd.Wait()
	wantFile(t, dir+"/target.lock", []byte("{}"))
	wantNames(t, dir, "retained.lock", "target.lock")
}

// childParent holds a lock, runs this program again with everything it has, and
// lets that exit in order.
func childParent() {
	r := childRoot()
	l, err := Acquire(context.Background(), r, "target", Options{})
	childMust(err)
	self, err := os.Executable()
	childMust(err)
	again := exec.Command(self)
	again.Env = append(os.Environ(), childVar+"=idle")
	childMust(again.Run())
	childMust(l.Verify(context.Background()))
	if exec.Command(self+"-missing").Run() == nil {
		childMust(errors.New("a missing program ran"))
	}
	say("held")
	hear()
	childMust(l.Release())
}

// case 159: a child never cleans up what its parent holds, nor does a failed
// attempt to start one, and the lock is not inherited.
func TestChildLeavesParents(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, "parent")
	c.hears("held")
	wantNames(t, dir, "target.lock")
	_, err := NewManager(t.Name()).TryAcquire(deadline(t), openRoot(t, dir), "target", Options{})
	want(t, "while the parent holds", err, ErrBusy)
	c.tell()
	c.end()
	wantNames(t, dir)
}

// The entry of a domain is registered anew by the acquisition after it has run.
func TestExitRearmed(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	for range 2 {
		l, err := m.Acquire(deadline(t), r, "target", Options{})
		must(t, err)
		must(t, exitcleanup.Run(context.Background()))
		wantNames(t, dir)
		want(t, "Verify", l.Verify(context.Background()), ErrReleased)
		must(t, l.Release())
	}
}
