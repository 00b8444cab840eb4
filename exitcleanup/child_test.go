package exitcleanup

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests of the end of a process run this test binary again. The variable
// names what the child does.
const scenarioVar = "EXITCLEANUP_TEST_SCENARIO"

// fellThrough is the status of a child whose scenario returned.
const fellThrough = 97

// hangLimit ends a child that would never end by itself.
const hangLimit = time.Minute

func TestMain(m *testing.M) {
	name := os.Getenv(scenarioVar)
	if name == "" {
		os.Exit(m.Run())
	}
	run, ok := scenarios[name]
	if !ok {
		run, ok = systemScenarios[name]
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "no scenario", name)
		os.Exit(fellThrough)
	}
	run()
	os.Exit(fellThrough)
}

// mark is a file in the child's working directory that stands for a lock
// record or scratch directory.
const mark = "mark"

// registerMark makes the mark and has it removed at exit.
func registerMark() *Entry {
	e := Register(mark, func(context.Context) error { return os.Remove(mark) })
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		panic(err)
	}
	return e
}

// say tells the parent; it is one line on standard output.
func say(line string) { fmt.Println(line) }

// hear waits until the parent sends a line or hangs up.
func hear() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') }

// child is a running scenario.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Reader
	stderr bytes.Buffer
	kill   *time.Timer
}

// start runs a scenario in a directory of its own.
func start(t *testing.T, scenario string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startCommand(t, scenario, exec.Command(self))
}

func startCommand(t *testing.T, scenario string, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{t: t, cmd: cmd}
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), scenarioVar+"="+scenario)
	cmd.Stderr = &c.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewReader(stdout)
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.kill = time.AfterFunc(hangLimit, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return c
}

// expect reads the next line the child says.
func (c *child) expect(line string) {
	c.t.Helper()
	got, err := c.lines.ReadString('\n')
	if got = strings.TrimRight(got, "\r\n"); err != nil || got != line {
		c.t.Fatalf("child said %q (%v), want %q\nstandard error:\n%s", got, err, line, c.rest())
	}
}

// tell lets the child go on from hear.
func (c *child) tell() {
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		c.t.Error(err)
	}
}

// rest ends a child that went wrong, so that its standard error is complete.
func (c *child) rest() string {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	return c.stderr.String()
}

// end waits for the child and wants nothing more to be said.
func (c *child) end() *os.ProcessState {
	c.t.Helper()
	said, _ := io.ReadAll(c.lines)
	_ = c.cmd.Wait()
	if !c.kill.Stop() {
		c.t.Errorf("child had to be killed after %v", hangLimit)
	}
	if len(said) > 0 {
		c.t.Errorf("child also said %q", said)
	}
	if strings.Contains(c.stderr.String(), "DATA RACE") {
		c.t.Error(c.stderr.String())
	}
	return c.cmd.ProcessState
}

func (c *child) wantCode(code int) {
	c.t.Helper()
	if got := c.end().ExitCode(); got != code {
		c.t.Errorf("exit status %d, want %d\nstandard error:\n%s", got, code, c.stderr.String())
	}
}

func (c *child) exists(name string) bool {
	c.t.Helper()
	_, err := os.Lstat(filepath.Join(c.cmd.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return err == nil
}

func (c *child) wantGone(name string) {
	c.t.Helper()
	if c.exists(name) {
		c.t.Errorf("%s was left behind\nstandard error:\n%s", name, c.stderr.String())
	}
}

func (c *child) wantLeft(name string) {
	c.t.Helper()
	if !c.exists(name) {
		c.t.Errorf("%s was removed", name)
	}
}

func (c *child) wantStderr(parts ...string) {
	c.t.Helper()
	for _, part := range parts {
		if !strings.Contains(c.stderr.String(), part) {
			c.t.Errorf("standard error lacks %q:\n%s", part, c.stderr.String())
		}
	}
}

func (c *child) wantSilence() {
	c.t.Helper()
	if c.stderr.Len() > 0 {
		c.t.Errorf("standard error:\n%s", c.stderr.String())
	}
}
