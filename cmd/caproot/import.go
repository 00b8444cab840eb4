package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

// importCommand names the source before the root, as cp does.
type importCommand struct {
	Src string `arg:"" help:"Directory to copy from."`
	rootFlags
	jsonFlag
	Name     string `arg:"" optional:"" default:"." help:"Directory inside the root to copy to."`
	Receipts string `placeholder:"FILE" help:"Write the receipts to FILE instead of standard output."`
	Workers  int    `default:"4" placeholder:"N" help:"Copy N files at a time, 1 to ${maxworkers}. Default: 4."`
}

// maxWorkers keeps far below the descriptors that a process may have.
const maxWorkers = 64

// Run is called by kong.
func (c *importCommand) Run(s *session) error {
	if c.Workers < 1 || c.Workers > maxWorkers {
		return usageError{fmt.Sprintf("--workers takes a number from 1 to %d", maxWorkers)}
	}
	from := caproot.ReadOnly()
	// Links are told, not copied. This holds for a file or directory too that
	// becomes a link between the plan and the copy.
	from.Links = caproot.LinksRefuse
	src, err := caproot.Open(c.Src, from)
	if err != nil {
		return openError{err}
	}
	defer src.Close()
	ctx, stop := untilSignal()
	defer stop()
	return c.within(func(r *caproot.Root) error {
		t := transfer{s: s, src: src, to: r, base: c.Name, receipts: s.out, workers: c.Workers}
		if t.nested(c.Root) {
			return &fs.PathError{Op: "import", Path: c.Name, Err: errNested}
		}
		t.signals = ctx
		t.ctx, t.cancel = context.WithCancelCause(ctx)
		defer t.cancel(nil)
		if c.Receipts == "" {
			return t.run()
		}
		t.json = c.JSON
		f, err := os.Create(c.Receipts)
		if err != nil {
			return inputError{err}
		}
		t.receipts = f
		return errors.Join(t.run(), f.Close())
	})
}

// transfer is one import. It looks at the whole source before it copies: that
// gives the total for the time left.
type transfer struct {
	signals  context.Context // ended by a signal
	ctx      context.Context
	cancel   context.CancelCauseFunc // ends it with the error that says why
	workers  int
	s        *session
	src, to  *caproot.Root
	base     string // directory inside to
	receipts io.Writer
	json     bool // lines of what is left out, and the summary, to standard output
	plan     *plan
	progress progress

	mu   sync.Mutex // what the workers share: receipts, standard output and these
	code int
	sum  summary
}

// summary is the JSON form of what an import did.
type summary struct {
	Files    int   `json:"files"`
	Dirs     int   `json:"dirs"`
	Bytes    int64 `json:"bytes,string"`
	Left     int   `json:"left"`     // entries that were not copied
	Narrowed int   `json:"narrowed"` // files whose mode the policy cut
}

// leftOut is the JSON form of an entry that was not copied.
type leftOut struct {
	label
	Code string `json:"code"` // of the reason
}

func (t *transfer) run() (err error) {
	if t.base != "." {
		if err := t.to.MkdirAll(t.base, 0o777); err != nil {
			return err
		}
	}
	if t.plan, err = newPlan(); err != nil {
		return inputError{err}
	}
	defer t.plan.close()
	t.progress = progress{to: t.s.err, on: !t.s.quiet && isTerminal(t.s.err), start: time.Now()}
	if err := t.look(); err != nil {
		return t.interrupted(err)
	}
	t.progress.total, t.progress.files, t.progress.start = t.plan.bytes, t.plan.files, time.Now()
	if err := t.copyAll(); err != nil {
		return t.interrupted(err)
	}
	t.progress.clear()
	if err := t.summary(); err != nil {
		return err
	}
	return ended(t.code)
}

// copyAll makes what is planned. A directory is made before anything in it is
// given to a worker.
func (t *transfer) copyAll() error {
	files := make(chan planned)
	var crew sync.WaitGroup
	for range t.workers {
		crew.Go(func() {
			for p := range files {
				if err := t.one(p); err != nil {
					t.cancel(err)
				}
			}
		})
	}
	err := t.deal(files)
	if err != nil {
		t.cancel(err)
	}
	close(files)
	crew.Wait()
	return t.stopped()
}

// deal goes through the plan until its end, or that of the context.
func (t *transfer) deal(files chan<- planned) error {
	for plan := t.plan.reader(); ; {
		p, err := plan.next()
		if err == io.EOF {
			return nil
		}
		if err == nil && p.mode.IsDir() {
			err = t.directory(p)
		}
		if err != nil {
			return err
		}
		if p.mode.IsDir() {
			continue
		}
		select {
		case files <- p:
		case <-t.ctx.Done():
			return nil
		}
	}
}

// stopped is why the import ends early, nil while it does not.
func (t *transfer) stopped() error {
	if t.signals.Err() != nil {
		return stopped{"import"}
	}
	return context.Cause(t.ctx)
}

// interrupted tells how far an import came.
func (t *transfer) interrupted(err error) error {
	t.progress.clear()
	return errors.Join(err, t.summary())
}

// look plans everything in the source, directory by directory.
func (t *transfer) look() error {
	dirs := t.plan.reader()
	for dir := "."; ; {
		if err := t.list(dir); err != nil {
			return err
		}
		for dir = ""; dir == ""; {
			p, err := dirs.next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = t.stopped()
			}
			if err != nil {
				return err
			}
			if p.mode.IsDir() {
				dir = p.name
			}
		}
	}
}

// listed is how many entries of a directory are in memory at once. They are
// sorted, so files of smaller directories are begun in the order of their names.
const listed = 4096

// list plans one directory. An error is of the plan; what is wrong with the
// directory or an entry is told.
func (t *transfer) list(dir string) error {
	f, err := t.src.OpenView(dir, os.O_RDONLY, 0)
	if err != nil {
		return t.leave(dir, err)
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(listed)
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := t.consider(below(dir, e.Name()), e); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return t.leave(dir, err)
		}
	}
}

func (t *transfer) consider(name string, e fs.DirEntry) error {
	info, err := e.Info()
	switch {
	case err != nil:
		return t.leave(name, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return t.leave(name, &fs.PathError{Op: "import", Path: name, Err: caproot.ErrSymlink})
	case !info.IsDir() && !info.Mode().IsRegular():
		return t.leave(name, &fs.PathError{Op: "import", Path: name, Err: caproot.ErrSpecial})
	}
	t.progress.found++
	t.progress.draw()
	return t.plan.add(planned{name, info.Mode(), info.Size()})
}

// leave tells why an entry is not copied.
func (t *transfer) leave(name string, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Left++
	t.progress.aside(func() { t.code = worse(t.code, t.s.fail(err)) })
	if !t.json {
		return nil
	}
	return t.s.writeJSON(leftOut{labelOf(name), caproot.Code(err)})
}

// directory makes a planned directory.
func (t *transfer) directory(p planned) error {
	if err := t.stopped(); err != nil {
		return err
	}
	// The owner's bits are added: what the directory holds has yet to come.
	if err := t.to.MkdirAll(below(t.base, p.name), p.mode.Perm()|0o700); err != nil {
		return t.leave(p.name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Dirs++
	return nil
}

// one copies a planned file. An error is of the receipts, or the end of the
// context: there is no point in going on.
func (t *transfer) one(p planned) error {
	if err := t.stopped(); err != nil {
		return err
	}
	c, err := t.copy(p, below(t.base, p.name))
	if stop := t.stopped(); err != nil && stop != nil {
		return stop
	}
	if err != nil {
		return t.leave(p.name, err)
	}
	line, err := json.Marshal(c.receipt)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Files++
	t.sum.Bytes += c.bytes
	if c.narrowed {
		t.sum.Narrowed++
	}
	_, err = t.receipts.Write(append(line, '\n'))
	return err
}

// copied is what became of a file.
type copied struct {
	receipt  identity.Receipt
	bytes    int64
	narrowed bool // the policy cut its mode
}

func (t *transfer) copy(p planned, target string) (c copied, err error) {
	f, err := t.src.OpenView(p.name, os.O_RDONLY, 0)
	if err != nil {
		return c, err
	}
	defer f.Close()
	o := caproot.PutOptions{Digest: true, Parents: true, Mode: p.mode & settable & t.to.Policy().Modes}
	content := t.progress.count(f)
	if o.Mode == 0 {
		// For a publication 0 is no mode said; a copy takes that of the source.
		source := caproot.Source{Root: t.src, Name: p.name}
		c.receipt, err = t.to.CopyIn(t.ctx, target, source, caproot.CopyOptions{PutOptions: o, KeepMode: true})
		c.bytes = c.receipt.Size
	} else {
		c.receipt, err = t.to.PutFrom(t.ctx, target, content, o)
		c.bytes = content.done
	}
	c.narrowed = o.Mode != p.mode&settable
	return c, err
}

// settable are the bits of a mode that a file can be given.
const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func (t *transfer) summary() error {
	if !t.s.quiet {
		text := fmt.Sprintf("imported %d files, %s, and %d directories in %s (%s/s)", t.sum.Files, bytesText(t.sum.Bytes), t.sum.Dirs,
			t.progress.elapsed().Round(time.Millisecond), bytesText(rate(t.sum.Bytes, t.progress.elapsed())))
		if t.sum.Narrowed > 0 {
			text += fmt.Sprintf("; the policy cut the mode of %d", t.sum.Narrowed)
		}
		if t.sum.Left > 0 {
			text += fmt.Sprintf("; not copied: %d", t.sum.Left)
		}
		t.s.note(text)
	}
	if !t.json {
		return nil
	}
	return t.s.writeJSON(t.sum)
}
