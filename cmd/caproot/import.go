package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/caproot/caproot"
)

// importCommand names the source before the root, as cp does.
type importCommand struct {
	Src string `arg:"" help:"Directory to copy from."`
	rootFlags
	Name     string `arg:"" optional:"" default:"." help:"Directory inside the root to copy to."`
	Receipts string `placeholder:"FILE" help:"Write the receipts to FILE instead of standard output."`
}

// Run is called by kong.
func (c *importCommand) Run(s *session) error {
	from := caproot.ReadOnly()
	// Links are told, not copied. This holds for a file or directory too that
	// becomes a link between the plan and the copy.
	from.Links = caproot.LinksRefuse
	src, err := caproot.Open(c.Src, from)
	if err != nil {
		return openError{err}
	}
	defer src.Close()
	// A first signal ends the import with a summary, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return c.within(func(r *caproot.Root) error {
		t := transfer{ctx: ctx, s: s, src: src, to: r, base: c.Name, receipts: s.out}
		if c.Receipts == "" {
			return t.run()
		}
		f, err := os.Create(c.Receipts)
		if err != nil {
			return inputError{err}
		}
		t.receipts = f
		return errors.Join(t.run(), f.Close())
	})
}

// transfer is one import.
type transfer struct {
	ctx      context.Context
	s        *session
	src, to  *caproot.Root
	base     string // directory inside to
	receipts io.Writer
	progress progress

	plan     []planned
	code     int
	files    int
	dirs     int
	left     int // entries that were not copied
	narrowed int // files whose mode the policy cut
}

// planned is a file or directory to make. The whole plan is made first: it
// gives the total for the time left, and it ends even when the root lies
// inside the source.
type planned struct {
	name string // below the source
	mode fs.FileMode
	size int64
}

func (t *transfer) run() error {
	if t.base != "." {
		if err := t.to.MkdirAll(t.base, 0o777); err != nil {
			return err
		}
	}
	t.look(".")
	t.progress = progress{to: t.s.err, on: !t.s.quiet && isTerminal(t.s.err), start: time.Now()}
	for _, p := range t.plan {
		t.progress.total += p.size
	}
	for _, p := range t.plan {
		if err := t.ctx.Err(); err != nil {
			t.progress.clear()
			t.summary()
			return err
		}
		if err := t.one(p); err != nil {
			return err
		}
	}
	t.progress.clear()
	t.summary()
	return ended(t.code)
}

// look plans a directory of the source and everything below it.
func (t *transfer) look(dir string) {
	entries, err := t.src.ReadDir(dir)
	if err != nil {
		t.leave(err)
		return
	}
	for _, e := range entries {
		name := e.Name()
		if dir != "." {
			name = dir + "/" + name
		}
		info, err := e.Info()
		switch {
		case err != nil:
			t.leave(err)
		case info.IsDir():
			t.plan = append(t.plan, planned{name: name, mode: info.Mode()})
			t.look(name)
		case info.Mode().IsRegular():
			t.plan = append(t.plan, planned{name: name, mode: info.Mode(), size: info.Size()})
		case info.Mode()&fs.ModeSymlink != 0:
			t.leave(&fs.PathError{Op: "import", Path: name, Err: caproot.ErrSymlink})
		default:
			t.leave(&fs.PathError{Op: "import", Path: name, Err: caproot.ErrSpecial})
		}
	}
}

// leave tells why an entry is not copied.
func (t *transfer) leave(err error) {
	t.progress.clear()
	t.left++
	t.code = worse(t.code, t.s.fail(err))
}

// one makes a planned entry. An error is of the receipts; without them there is
// no point in going on.
func (t *transfer) one(p planned) error {
	target := p.name
	if t.base != "." {
		// Not path.Join: it would resolve ".." as text, which only the root may.
		target = t.base + "/" + p.name
	}
	if p.mode.IsDir() {
		// The owner's bits are added: what the directory holds has yet to come.
		if err := t.to.MkdirAll(target, p.mode.Perm()|0o700); err != nil {
			t.leave(err)
			return nil
		}
		t.dirs++
		return nil
	}
	receipt, err := t.copy(p, target)
	if err != nil {
		t.leave(err)
		return nil
	}
	t.files++
	line, err := json.Marshal(receipt)
	if err == nil {
		_, err = t.receipts.Write(append(line, '\n'))
	}
	return err
}

func (t *transfer) copy(p planned, target string) (any, error) {
	f, err := t.src.OpenView(p.name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := caproot.PutOptions{Digest: true, Parents: true, Mode: p.mode & settable & t.to.Policy().Modes}
	receipt, err := t.to.PutFrom(t.ctx, target, t.progress.count(f), o)
	if err == nil && o.Mode != p.mode&settable {
		t.narrowed++
	}
	return receipt, err
}

// settable are the bits of a mode that a file can be given.
const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func (t *transfer) summary() {
	if t.s.quiet {
		return
	}
	fmt.Fprintf(t.s.err, "caproot: imported %d files, %s, and %d directories in %s (%s/s)",
		t.files, bytesText(t.progress.done), t.dirs, t.progress.elapsed().Round(time.Millisecond), bytesText(t.progress.rate()))
	if t.narrowed > 0 {
		fmt.Fprintf(t.s.err, "; the policy cut the mode of %d", t.narrowed)
	}
	if t.left > 0 {
		fmt.Fprintf(t.s.err, "; not copied: %d", t.left)
	}
	fmt.Fprintln(t.s.err)
}
