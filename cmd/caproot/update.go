package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

type updateCommand struct {
	rootFlags
	jsonFlag
	Name    string   `arg:"" help:"Name inside the root."`
	Child   []string `arg:"" name:"cmd" passthrough:"" help:"Command, after --, that gets the content on standard input and writes the new one to standard output."`
	Kind    string   `enum:"sidecar,lease" default:"sidecar" help:"The lock, as for lock."`
	Wait    float64  `short:"w" default:"10" placeholder:"SECONDS" help:"Wait no longer for the lock. Default: 10."`
	Parents bool     `help:"Make missing directories."`
	Mode    string   `help:"Exact mode of the file, octal."`
}

// Run is called by kong.
func (c *updateCommand) Run(s *session) error {
	args := c.Child
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return usageError{"update needs a command after --"}
	}
	if !(c.Wait > 0) || c.Wait > maxWait {
		return usageError{"-w takes seconds above 0"}
	}
	o := state.Options{Parents: c.Parents, Timeout: time.Duration(c.Wait * float64(time.Second))}
	if c.Kind == "lease" {
		o.Lease = &lock.LeaseOptions{TTL: commandTTL}
	}
	if c.Mode != "" {
		var err error
		if o.Mode, err = parseMode(c.Mode); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return c.within(func(r *caproot.Root) error {
		err := state.UpdateBytes(ctx, r, c.Name, func(ctx context.Context, old []byte) ([]byte, error) {
			return s.filter(ctx, args, old, r.Policy().MaxWriteBytes)
		}, o)
		if err != nil || !c.JSON {
			return err
		}
		return s.writeJSON(outcome{"update", labelOf(c.Name)})
	})
}

// filter runs a command on the old content and returns what it writes, if it ends
// well. Otherwise the error is its exit code. The command is killed when ctx ends,
// because the lock is lost then, or the user wants it.
func (s *session) filter(ctx context.Context, args []string, old []byte, limit int64) ([]byte, error) {
	// What ties the command to this process is of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := bounded{left: limit}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(old), &out, s.err
	dieTogether(cmd)
	if err := cmd.Start(); err != nil {
		s.fail(err)
		return nil, status(exitCannotRun)
	}
	err := cmd.Wait()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return nil, cause
		}
		return nil, stopped{"update"}
	case out.left < 0:
		return nil, &fs.PathError{Op: "update", Path: args[0], Err: caproot.ErrTooLarge}
	case failed:
		return nil, status(exitOfCommand(exit))
	case errors.Is(err, syscall.EPIPE):
		err = nil // it did not want all of its input
	}
	if err != nil {
		return nil, err
	}
	return out.data.Bytes(), nil
}

// exitOfCommand is the code of a command that ended by itself or by a signal.
func exitOfCommand(exit *exec.ExitError) int {
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// bounded keeps what is written, up to a limit.
type bounded struct {
	data bytes.Buffer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, caproot.ErrTooLarge
	}
	return b.data.Write(p)
}
