package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func init() {
	children["advisory hold"] = holdAdvisory
	children["advisory count"] = countUnderAdvisory
}

// advisoryVar has the name of the lock file, and more words for the scenario.
const advisoryVar = "CAPROOT_LOCK_ADVISORY"

// startAdvisory starts another process in dir.
func startAdvisory(t testing.TB, dir, scenario string) *child {
	t.Helper()
	verb, args, _ := strings.Cut(scenario, " ")
	return start(t, dir, "advisory "+verb, advisoryVar+"="+args)
}

func advisoryArgs() []string { return strings.Fields(os.Getenv(advisoryVar)) }

// startCommand starts another program.
func startCommand(t testing.TB, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{t: t, cmd: cmd}
	var err error
	c.stdin, err = cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	c.lines = bufio.NewReader(stdout)
	must(t, cmd.Start())
	t.Cleanup(c.kill)
	return c
}

// holdAdvisory says "held", and lets go when told. The arguments are the name and
// what else: "shared", or "unlink", to delete the file before it lets go.
func holdAdvisory() {
	r, args := childRoot(), advisoryArgs()
	l, err := AcquireAdvisory(context.Background(), r, args[0], AdvisoryOptions{Shared: len(args) > 1 && args[1] == "shared"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	hear()
	if len(args) > 1 && args[1] == "unlink" {
		err = r.Remove(args[0])
	}
	fmt.Println("released", errors.Join(err, l.Release()))
	hear()
}

// countUnderAdvisory adds to the number in the file "counter" so many times, and
// checks that nobody else is at it.
func countUnderAdvisory() {
	r, args := childRoot(), advisoryArgs()
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
	children := make([]*child, processes)
	for i := range children {
		children[i] = startAdvisory(t, dir, fmt.Sprint("count ", name, " ", times))
	}
	for _, c := range children {
		c.hears("counted")
	}
	data, err := os.ReadFile(dir + "/counter")
	must(t, err)
	if got, want := string(data), strconv.Itoa(processes*times); got != want {
		t.Errorf("counted to %s, want %s", got, want)
	}
}
