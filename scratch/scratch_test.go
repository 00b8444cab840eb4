package scratch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/exitcleanup"
	"github.com/caproot/caproot/internal/testfs"
)

const prefix = "job-"

// The tests of the end of a process run this test binary again: the variable
// has how it is to end.
const childVar = "SCRATCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childVar); how != "" {
		work(how)
	}
	os.Exit(m.Run())
}

// work makes a scratch directory, says its name, and ends when it is told to, or
// by a signal.
func work(how string) {
	r, err := caproot.Open(".", caproot.Workspace())
	if err != nil {
		panic(err)
	}
	exitcleanup.HandleSignals()
	exitcleanup.Main(func(ctx context.Context) int {
		d, err := New(r, "tmp", Options{Prefix: prefix, RetainOnExit: how == "retain"})
		if err == nil {
			_, err = d.Root().Put("deep/file", []byte("x"), caproot.PutOptions{Parents: true})
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Name())
		told := make(chan struct{})
		go func() { _, _ = os.Stdin.Read(make([]byte, 1)); close(told) }()
		select {
		case <-told:
		case <-ctx.Done():
		}
		if how == "os.Exit" {
			os.Exit(0)
		}
		return 7
	})
}

type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	name  string // of its directory
}

func start(t *testing.T, dir, how string) *child {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := &child{t: t, cmd: exec.Command(self)}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = dir, append(os.Environ(), childVar+"="+how), os.Stderr
	c.stdin, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	t.Cleanup(c.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	c.name = strings.TrimSpace(line)
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// end tells it to end and returns the exit status.
func (c *child) end() int {
	c.stdin.Close()
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("%s has %q, want %q", filepath.Base(dir), have, want)
	}
}

// place makes a root with a directory "tmp".
func place(t *testing.T) (dir, tmp string, r *caproot.Root) {
	t.Helper()
	dir = t.TempDir()
	tmp = filepath.Join(dir, "tmp")
	must(t, os.Mkdir(tmp, 0o700))
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	t.Cleanup(func() { r.Close() })
	if err := identifies(r); err != nil {
		_, nerr := New(r, "tmp", Options{})
		wantNames(t, tmp)
		if !errors.Is(nerr, caproot.ErrUnsupported) {
			t.Errorf("New: %v, want ErrUnsupported", nerr)
		}
		t.Skip(err)
	}
	return dir, tmp, r
}

func TestRemove(t *testing.T) {
	_, tmp, r := place(t)
	d, err := New(r, "tmp", Options{Prefix: prefix})
	must(t, err)
	wantNames(t, tmp, d.Name())
	_, err = d.Root().Put("a/b/c", []byte("x"), caproot.PutOptions{Parents: true})
	must(t, err)
	if _, err := d.Root().ReadFile("../owner"); !errors.Is(err, caproot.ErrEscape) {
		t.Errorf("the work sees the owner's lock: %v", err)
	}
	must(t, d.Remove())
	must(t, d.Remove())
	wantNames(t, tmp)
}

func TestEndOfProgram(t *testing.T) {
	for how, left := range map[string]bool{"return": false, "retain": true, "os.Exit": true} {
		t.Run(how, func(t *testing.T) {
			dir, tmp, r := place(t)
			c := start(t, dir, how)
			wantNames(t, tmp, c.name)
			c.end()
			if !left {
				wantNames(t, tmp)
				return
			}
			wantNames(t, tmp, c.name)
			removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
			must(t, err)
			if len(removed) != 1 || removed[0] != c.name {
				t.Errorf("swept %q, want %q", removed, c.name)
			}
			wantNames(t, tmp)
		})
	}
}

// Case 166: one of two is killed.
func TestSweepBesideLiving(t *testing.T) {
	dir, tmp, r := place(t)
	dead, alive := start(t, dir, "return"), start(t, dir, "return")
	dead.kill()
	for _, stranger := range []string{"job-", "job-short", "job-ABC234", "other-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "job-zyxwvutsrqponmlkjihgfedcba"} {
		must(t, os.Mkdir(filepath.Join(tmp, stranger), 0o700))
	}
	full := filepath.Join(tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	must(t, os.MkdirAll(filepath.Join(full, contentName), 0o700))

	removed, err := Sweep(t.Context(), r, "tmp", prefix, time.Hour)
	must(t, err)
	if len(removed) != 0 {
		t.Errorf("swept %q, which are not old enough", removed)
	}
	removed, err = Sweep(t.Context(), r, "tmp", prefix, 0)
	must(t, err)
	if len(removed) != 1 || removed[0] != dead.name {
		t.Errorf("swept %q, want %q", removed, dead.name)
	}
	entries, err := os.ReadDir(tmp)
	must(t, err)
	if len(entries) != 7 {
		t.Errorf("%d entries are left: %v", len(entries), entries)
	}
	if _, err := os.Stat(filepath.Join(tmp, alive.name, contentName, "deep", "file")); err != nil {
		t.Errorf("the living one's work is gone: %v", err)
	}
	if code := alive.end(); code != 7 {
		t.Errorf("exit status %d", code)
	}
	if _, err := os.Stat(filepath.Join(tmp, alive.name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the living one's directory stays: %v", err)
	}
}

// Sweeps without an age take directories from under those who make them.
func TestNewBesideSweeps(t *testing.T) {
	if testfs.UnderWine() {
		t.Skip("Wine removes a file with its last handle, and until then its directory is not empty")
	}
	_, tmp, r := place(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := Sweep(context.Background(), r, "tmp", prefix, 0); err != nil {
				t.Error(err)
			}
		}
	}()
	defer func() {
		cancel()
		<-done
		wantNames(t, tmp)
	}()
	for range 50 {
		d, err := New(r, "tmp", Options{Prefix: prefix})
		must(t, err)
		_, err = d.Root().Put("file", nil, caproot.PutOptions{})
		must(t, err)
		must(t, d.Remove())
	}
}

// A directory that New did not make answers, and has nothing to remove.
func TestZeroValues(t *testing.T) {
	for _, d := range []*Dir{nil, {}} {
		if err := d.Remove(); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Remove: %v", err)
		}
		if d.Name() != "" || d.Root() != nil {
			t.Errorf("%q, %v", d.Name(), d.Root())
		}
	}
}
