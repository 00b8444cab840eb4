package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

// The tests with several processes run this test binary again. The variable
// names what the child does, in the directory that is its working directory.
const childVar = "CAPROOT_LOCK_CHILD"

// hangLimit ends a child that would never end by itself.
const hangLimit = time.Minute

var children = map[string]func(){
	"hold":   childHold,
	"count":  childCount,
	"traced": childTraced,
	"pair":   childPair,
	"try":    childTry,
	"order":  childOrder,
}

func TestMain(m *testing.M) {
	prepareProcess()
	if run := children[os.Getenv(childVar)]; run != nil {
		run()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a running scenario.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// start runs a scenario with one more variable per pair "NAME=value".
func start(t testing.TB, dir, scenario string, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := &child{t: t, cmd: exec.Command(self)}
	c.cmd.Dir = dir
	c.cmd.Env = append(append(os.Environ(), childVar+"="+scenario), env...)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.lines = bufio.NewReader(out)
	c.stdin, err = c.cmd.StdinPipe()
	must(t, err)
	must(t, c.cmd.Start())
	limit := time.AfterFunc(hangLimit, func() { c.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

// hears waits for a line that the child says.
func (c *child) hears(line string) {
	c.t.Helper()
	got, err := c.lines.ReadString('\n')
	if strings.TrimSpace(got) != line {
		c.t.Fatalf("child said %q (%v), want %q", got, err, line)
	}
}

func (c *child) tell() { fmt.Fprintln(c.stdin) }

// kill returns when the kernel has taken the child apart.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

func (c *child) end() {
	c.t.Helper()
	must(c.t, c.cmd.Wait())
}

func say(line string) { fmt.Println(line) }

func hear() { bufio.NewReader(os.Stdin).ReadString('\n') }

func childMust(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
}

func childRoot() *caproot.Root {
	r, err := caproot.Open(".", caproot.Workspace())
	childMust(err)
	return r
}

// childOptions are set by the environment.
func childOptions() Options {
	return Options{KeepRecord: os.Getenv("KEEP") != "", Fair: os.Getenv("FAIR") != "", RetainOnExit: os.Getenv("RETAIN") != ""}
}

// childHold holds until it is told to release, or killed.
func childHold() {
	l, err := Acquire(context.Background(), childRoot(), "target", childOptions())
	childMust(err)
	say("held")
	hear()
	childMust(l.Release())
	childMust(NewManager("").Drain(context.Background()))
	say("released")
}

// childTry makes one attempt, and fails unless it is refused as busy.
func childTry() {
	runtime.LockOSThread() // the tracer tells calls apart by their thread
	r := childRoot()
	say("begins")
	_, err := TryAcquire(context.Background(), r, "target", childOptions())
	if !errors.Is(err, ErrBusy) {
		childMust(fmt.Errorf("acquired, or %w", err))
	}
}

// childOrder writes its number down while it holds.
func childOrder() {
	r := childRoot()
	say("begins")
	childMust(With(context.Background(), r, "target", childOptions(), func(context.Context) error {
		f, err := os.OpenFile("order", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		childMust(err)
		fmt.Fprint(f, os.Getenv("NUMBER"))
		return f.Close()
	}))
}

// childCount adds to a number in a file that only the lock protects.
func childCount() {
	r, o := childRoot(), childOptions()
	var rounds int
	fmt.Sscan(os.Getenv("ROUNDS"), &rounds)
	m := NewManager("")
	for range rounds {
		childMust(m.With(context.Background(), r, "target", o, func(context.Context) error { return increment("number") }))
	}
	childMust(m.Drain(context.Background()))
}

// increment is read, add and write, with nothing atomic about it.
func increment(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var n int
	fmt.Sscan(string(data), &n)
	return os.WriteFile(file, []byte(fmt.Sprint(n+1)), 0o600)
}

// childPair acquires and releases once more after it did it before.
func childPair() {
	r, o := childRoot(), childOptions()
	pair := func(context.Context) error { return nil }
	for range 2 {
		childMust(With(context.Background(), r, "target", o, pair))
	}
	say("begins")
	childMust(With(context.Background(), r, "target", o, pair))
}

// childTraced is killed at one of its calls of the kernel after "begins".
func childTraced() {
	r, o := childRoot(), childOptions()
	say("begins")
	l, err := Acquire(context.Background(), r, "target", o)
	childMust(err)
	childMust(l.Release())
	childMust(NewManager("").Drain(context.Background()))
}
