package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// lockCommand has the letters and codes of flock(1).
type lockCommand struct {
	Shared       bool     `short:"s" help:"Allow other shared locks beside this one. Needs --kind advisory."`
	Nonblock     bool     `short:"n" help:"Do not wait."`
	Wait         *float64 `short:"w" placeholder:"SECONDS" help:"Wait no longer."`
	ConflictCode int      `short:"E" default:"1" placeholder:"CODE" help:"Exit code when the lock is not to be had. Default: 1."`
	Shell        string   `short:"c" name:"command" placeholder:"COMMAND" help:"Run COMMAND by sh -c."`
	Kind         string   `enum:"sidecar,advisory,lease" default:"sidecar" help:"sidecar: a record FILE.lock beside FILE. advisory: the system's lock on FILE itself, as flock(1) takes it. lease: a record that is renewed, for holders on several machines."`
	OnLost       string   `enum:"ignore,term" default:"term" placeholder:"DO" help:"When the lock turns out to be lost: term ends the command, ignore tells it. Default: term."`
	File         string   `arg:"" help:"What is locked."`
	Child        []string `arg:"" optional:"" name:"cmd" passthrough:"" help:"Command to run under the lock, after --."`
}

// Run is called by kong.
func (c *lockCommand) Run(s *session) error {
	args, err := c.child()
	if err != nil {
		return err
	}
	r, name, err := openBeside(c.File)
	if err != nil {
		return err
	}
	defer r.Close()
	held, err := c.acquire(r, name)
	if errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrStale) {
		s.fail(err)
		return status(c.ConflictCode)
	}
	if errors.Is(err, fs.ErrNotExist) || lock.Code(err) == "permission" {
		return openError{err}
	}
	if err != nil {
		return err
	}
	code, lost := c.run(s, held, args)
	err = held.Release()
	if lost && errors.Is(err, lock.ErrCompromised) {
		err = nil // told when it was noticed
	}
	if s.fail(err) != exitDone || lost {
		if code == exitDone {
			code = exitFailed
		}
	}
	return ended(code)
}

func (c *lockCommand) child() ([]string, error) {
	args := c.Child
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case (c.Shell != "") == (len(args) > 0):
		return nil, usageError{"lock needs one command: -c COMMAND, or CMD after --"}
	case c.Shared && c.Kind != "advisory":
		return nil, usageError{"a shared lock needs --kind advisory"}
	case c.Wait != nil && (!(*c.Wait >= 0) || *c.Wait > maxWait):
		return nil, usageError{"-w takes seconds from 0 on"}
	case c.ConflictCode < 0 || c.ConflictCode > 255:
		return nil, usageError{"-E takes a code from 0 to 255"}
	case c.Shell != "":
		return []string{"sh", "-c", c.Shell}, nil
	}
	return args, nil
}

// maxWait keeps seconds within time.Duration, which holds 292 years.
const maxWait = 9e9

func (c *lockCommand) acquire(r *caproot.Root, name string) (lock.Lock, error) {
	ctx := context.Background()
	wait := !c.Nonblock
	if wait && c.Wait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*c.Wait*float64(time.Second)))
		defer cancel()
	}
	if c.Kind == "advisory" {
		acquire := lock.TryAdvisory
		if wait {
			acquire = lock.AcquireAdvisory
		}
		return acquire(ctx, r, name, lock.AdvisoryOptions{Shared: c.Shared})
	}
	if c.Kind == "lease" {
		return acquireLease(ctx, r, name, wait)
	}
	acquire := lock.TryAcquire
	if wait {
		acquire = lock.Acquire
	}
	return acquire(ctx, r, name, lock.Options{})
}

// commandTTL is long, because the command may share a busy machine, and short
// beside what people wait for.
const commandTTL = 30 * time.Second

// acquireLease waits as long as ctx lets it.
func acquireLease(ctx context.Context, r *caproot.Root, name string, wait bool) (lock.Lock, error) {
	o := lock.LeaseOptions{TTL: commandTTL}
	if wait {
		o.Timeout = lock.Never
	}
	l, err := lock.AcquireLease(ctx, r, name, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// openBeside opens the directory of a path of the caller's own. The path is
// split as text, and only the system resolves what is before the last name.
func openBeside(path string) (*caproot.Root, string, error) {
	dir, name := filepath.Split(strings.TrimRightFunc(path, separates))
	if dir == "" {
		dir = "."
	}
	r, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		return nil, "", openError{err}
	}
	return r, name, nil
}

func separates(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(uint8(r)) }

// run runs the command under the lock and returns its exit code, and whether
// the lock was lost meanwhile.
func (c *lockCommand) run(s *session, held lock.Lock, args []string) (code int, lost bool) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	// The lock ends with this process, so the command has to. What ties the two is
	// of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieTogether(cmd)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		s.fail(err)
		return exitCannotRun, false
	}
	done := make(chan struct{})
	watched := make(chan bool)
	go func() { watched <- c.watch(s, held, cmd.Process, signals, done) }()
	err := cmd.Wait()
	close(done)
	lost = <-watched
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitOfCommand(exit), lost
	}
	return s.fail(err), lost
}

// verifyEvery is how soon a lost lock is noticed: well within the time in which
// somebody would look for the cause.
const verifyEvery = time.Second

// watch passes signals on and sees that the lock stands, until the command is done.
func (c *lockCommand) watch(s *session, held lock.Lock, child *os.Process, signals <-chan os.Signal, done <-chan struct{}) (lost bool) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	fromTerminal := isTerminal(s.in)
	for {
		select {
		case <-done:
			return lost
		case sig := <-signals:
			// A terminal has sent these to the command too.
			if fromTerminal && (sig == os.Interrupt || sig == syscall.SIGQUIT) {
				continue
			}
			_ = child.Signal(sig)
		case <-tick.C:
			err := held.Verify(context.Background())
			if lost || !errors.Is(err, lock.ErrCompromised) {
				continue
			}
			lost = true
			s.fail(err)
			if c.OnLost == "term" && child.Signal(syscall.SIGTERM) != nil {
				_ = child.Kill() // Windows has no such signal
			}
		}
	}
}
