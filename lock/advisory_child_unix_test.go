//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/caproot/caproot"
)

// The tests of advisory locks run this test binary again as other processes:
// the variable has the scenario and its arguments.
const advisoryVar = "LOCK_TEST_ADVISORY"

var advisoryScenarios = map[string]func(r *caproot.Root, args []string){
	"hold":    holdAdvisory,
	"count":   countUnderAdvisory,
	"collect": collectLockFiles,
}

// TestAdvisoryChild is the other process.
func TestAdvisoryChild(t *testing.T) {
	args := strings.Fields(os.Getenv(advisoryVar))
	if len(args) == 0 {
		t.Skip("runs in child processes of other tests only")
	}
	r, err := caproot.Open(".", caproot.Workspace())
	if err == nil {
		advisoryScenarios[args[0]](r, args[1:])
	}
	fmt.Println(err)
	os.Exit(0)
}

type advisoryChild struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func advisoryCommand(dir, scenario string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAdvisoryChild$")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), advisoryVar+"="+scenario), os.Stderr
	return cmd
}

// startAdvisory starts another process in dir.
func startAdvisory(t testing.TB, dir, scenario string) *advisoryChild {
	t.Helper()
	return startChild(t, advisoryCommand(dir, scenario))
}

func startChild(t testing.TB, cmd *exec.Cmd) *advisoryChild {
	t.Helper()
	c := &advisoryChild{t: t, cmd: cmd}
	var err error
	c.stdin, err = cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	c.lines = bufio.NewScanner(stdout)
	must(t, cmd.Start())
	t.Cleanup(func() { c.kill() })
	return c
}

func (c *advisoryChild) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// expect reads the next line of the child.
func (c *advisoryChild) expect(line string) {
	c.t.Helper()
	if !c.lines.Scan() || c.lines.Text() != line {
		c.t.Fatalf("child said %q, want %q", c.lines.Text(), line)
	}
}

// tell ends one hear of the child.
func (c *advisoryChild) tell() {
	c.t.Helper()
	_, err := io.WriteString(c.stdin, "\n")
	must(c.t, err)
}

func hearAdvisory() { _, _ = os.Stdin.Read(make([]byte, 1)) }

// holdAdvisory says "held", and lets go when told. The arguments are the name and
// what else: "shared", or "unlink", to delete the file before it lets go.
func holdAdvisory(r *caproot.Root, args []string) {
	l, err := AcquireAdvisory(context.Background(), r, args[0], AdvisoryOptions{Shared: len(args) > 1 && args[1] == "shared"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	hearAdvisory()
	if len(args) > 1 && args[1] == "unlink" {
		err = r.Remove(args[0])
	}
	fmt.Println("released", errors.Join(err, l.Release()))
	hearAdvisory()
}

// countUnderAdvisory adds to the number in the file "counter" so many times, and
// checks that nobody else is at it.
func countUnderAdvisory(r *caproot.Root, args []string) {
	times, _ := strconv.Atoi(args[1])
	for range times {
		l, err := AcquireAdvisory(context.Background(), r, args[0], AdvisoryOptions{})
		if err == nil {
			err = errors.Join(addOne(), l.Release())
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("counted")
}

func addOne() error {
	inside, err := os.OpenFile("inside", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err // two holders
	}
	inside.Close()
	data, err := os.ReadFile("counter")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile("counter", []byte(strconv.Itoa(n+1)), 0o600), os.Remove("inside"))
}

// wantCount starts counters, and wants none of their work lost.
func wantCount(t *testing.T, dir, name string, processes, times int) {
	t.Helper()
	must(t, os.WriteFile(dir+"/counter", []byte("0"), 0o600))
	children := make([]*advisoryChild, processes)
	for i := range children {
		children[i] = startAdvisory(t, dir, fmt.Sprint("count ", name, " ", times))
	}
	for _, c := range children {
		c.expect("counted")
	}
	data, err := os.ReadFile(dir + "/counter")
	must(t, err)
	if got, want := string(data), strconv.Itoa(processes*times); got != want {
		t.Errorf("counted to %s, want %s", got, want)
	}
}
