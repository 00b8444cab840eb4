// Command caproot works on files inside a directory that it cannot leave.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// commands is the grammar of the command line.
type commands struct {
	Quiet   bool             `short:"q" help:"No progress and no summary. Errors are still told."`
	Version kong.VersionFlag `help:"Write the version and end."`

	Demo        demoCommand        `cmd:"" help:"Show a plugin trying to leave the directory it was given. Exit code 1 if anything outside changed."`
	Put         putCommand         `cmd:"" help:"Publish standard input under NAME, complete or not at all."`
	Cat         catCommand         `cmd:"" help:"Write the content of a file to standard output."`
	Ls          lsCommand          `cmd:"" help:"List a directory, sorted by name."`
	Stat        statCommand        `cmd:"" help:"Describe NAME itself, be it a link."`
	Mkdir       mkdirCommand       `cmd:"" help:"Make a directory."`
	Mv          mvCommand          `cmd:"" help:"Give an object another name inside the root."`
	Rm          rmCommand          `cmd:"" help:"Remove a file, a link or a directory."`
	Receipt     receiptCommand     `cmd:"" help:"Write the receipt of an object as one line of JSON."`
	Check       checkCommand       `cmd:"" help:"Compare what receipts name with what is there now."`
	Import      importCommand      `cmd:"" help:"Copy a directory tree into the root, with a receipt for each file."`
	Audit       auditCommand       `cmd:"" help:"Look for what a directory tree should not have: links that leave it, devices, colliding names, leftovers."`
	Lock        lockCommand        `cmd:"" help:"Run a command while FILE is locked. Letters and codes are those of flock(1)."`
	LockStatus  lockStatusCommand  `cmd:"" help:"Tell who holds the lock of FILE, and whether that holder lives. Exit code 0 is free."`
	LockReclaim lockReclaimCommand `cmd:"" help:"Remove the lock record of FILE if its holder is proved dead."`
	Update      updateCommand      `cmd:"" help:"Put the content of NAME through a command under a lock. Published atomically, if the command exits with 0."`
	Probe       probeCommand       `cmd:"" help:"Tell what kernel and file system give here. Works in a scratch directory in DIR and removes it."`
	Names       namesCommand       `cmd:"" help:"Tell whether a name may exist, and which rule refuses it."`
}

// session is what a command talks to.
type session struct {
	in       io.Reader
	out, err io.Writer
	quiet    bool
}

// written keeps the first error of a writer. Kong takes one for a wrong command
// line, or passes over it.
type written struct {
	io.Writer
	err error
}

func (w *written) Write(data []byte) (int, error) {
	n, err := w.Writer.Write(data)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// untilSignal ends with a first signal, so that a command can say how far it came. A
// second one ends the process at once.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// verbatim takes an argument byte for byte. Kong's own mapper puts it through
// JSON, where U+FFFD replaces what is not UTF-8: that is another file.
func verbatim(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	text, ok := token.Value.(string)
	if !ok {
		return fmt.Errorf("not text: %v", token.Value)
	}
	target.SetString(text)
	return nil
}

func newParser(c *commands, out, errOut io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, kong.Name("caproot"), kong.Writers(out, errOut), kong.Exit(exit),
		kong.Description("Work on files inside a directory without ever leaving it. Exit codes: 0 done, 1 the answer is no, "+
			"2 failure, 3 refused, 64 usage, 66 cannot open the root."),
		kong.Vars{"features": strings.Join(features, ","), "version": version(), "maxworkers": strconv.Itoa(maxWorkers)},
		kong.KindMapper(reflect.String, kong.MapperFunc(verbatim)))
}

// run returns the exit code of one command line.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	s := &session{in: in, out: out, err: errOut}
	var c commands
	// Kong goes on parsing after it has shown help or version, and what it then says is
	// not asked.
	helped := false
	shown := &written{Writer: out}
	parser, err := newParser(&c, shown, errOut, func(int) { helped = true })
	if err != nil {
		return s.fail(err)
	}
	parsed, err := parser.Parse(args)
	if shown.err != nil {
		return s.fail(shown.err)
	}
	if helped {
		return exitDone
	}
	if err != nil {
		return s.fail(usageError{err.Error()})
	}
	s.quiet = c.Quiet
	return s.fail(parsed.Run(s))
}
