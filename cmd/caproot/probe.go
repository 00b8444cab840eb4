package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/caproot/caproot"
)

type probeCommand struct {
	jsonFlag
	Dir     string   `arg:"" optional:"" default:"." help:"Directory on the file system to probe."`
	Require []string `enum:"${features}" placeholder:"FEATURE" help:"End with 1 unless FEATURE is here, with 3 when that cannot be told. Features: ${features}."`
}

// features are what --require takes, in the order in which they are told.
var features = []string{
	"openat2", "o-tmpfile", "linkat-empty-path", "rename-noreplace", "rename-exchange", "file-handle", "generation", "birth-time",
	"mount-id", "flock", "inotify", "landlock", "dir-fsync", "symlink", "hardlink", "case-folding", "normalisation", "identity-proof",
}

// answer tells whether something is here. Unknown is a third answer: it could
// not be tried.
type answer string

const (
	here    answer = "yes"
	missing answer = "no"
	unknown answer = "unknown"
)

// finding is what came of trying one feature.
type finding struct {
	Feature string `json:"feature"`
	Here    answer `json:"here"`
	Value   string `json:"value,omitempty"` // what more there is to say
	Why     string `json:"why,omitempty"`   // the system's reason, unless it is here
}

// verbFinding tells how one verb is kept inside the root.
type verbFinding struct {
	Verb        string `json:"verb"`
	Containment string `json:"containment"` // kernel-atomic, walked, unknown
	Why         string `json:"why,omitempty"`
}

// findings is the JSON form of a probe. Everything in it was tried.
type findings struct {
	Dir         label         `json:"dir"`
	Containment string        `json:"containment"`     // how a path is kept inside
	Replace     string        `json:"replace_matched"` // how a replacement with a receipt is published
	Durability  string        `json:"durability"`      // of a publication that asks for "dir"
	Lost        []string      `json:"lost"`            // codes of receipts
	Features    []finding     `json:"features"`
	Verbs       []verbFinding `json:"verbs"`
}

// Run is called by kong.
func (c *probeCommand) Run(s *session) error {
	// A signal must not leave the scratch directory behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := findings{
		Dir: labelOf(c.Dir), Containment: caproot.KernelAtomic.String(), Replace: string(unknown), Durability: string(unknown),
		Lost: []string{}, Verbs: []verbFinding{},
	}
	p := caproot.Workspace()
	p.Rights |= caproot.Share
	p.Containment = caproot.KernelAtomic
	r, err := caproot.Open(c.Dir, p)
	if errors.Is(err, caproot.ErrUnsupported) {
		p.Containment = caproot.Walked
		f.Containment = p.Containment.String()
		r, err = caproot.Open(c.Dir, p)
	}
	if err != nil {
		return openError{err}
	}
	defer r.Close()
	failed := f.probe(ctx, r)
	f.complete(failed)
	if c.JSON {
		err = s.writeJSON(f)
	} else {
		err = f.print(s, c.Dir)
	}
	if err != nil {
		return err
	}
	code := s.fail(failed)
	for _, name := range c.Require {
		code = worse(code, s.fail(f.require(name)))
	}
	return ended(code)
}

// probe works in a directory of its own that nothing is left of.
func (f *findings) probe(ctx context.Context, r *caproot.Root) (err error) {
	f.Features = processFeatures()
	scratch, err := r.MkdirTemp(".", ".caproot-probe-")
	if err != nil {
		return err
	}
	// Only an empty directory is removed by name: another can have the name by then.
	defer func() { err = errors.Join(err, r.Remove(scratch)) }()
	in, err := r.OpenRoot(scratch)
	if err != nil {
		return err
	}
	defer in.Close()
	if entries, err := in.ReadDir("."); err != nil || len(entries) > 0 {
		return errors.Join(fmt.Errorf("%w: the scratch directory was replaced", caproot.ErrChanged), err)
	}
	defer func() { err = errors.Join(err, empty(in)) }()
	for _, step := range []func(*caproot.Root) error{f.kernel, f.publish, f.names, f.links, f.verbs} {
		if ctx.Err() != nil {
			return stopped{"probe"}
		}
		if err := step(in); err != nil {
			return err
		}
	}
	return nil
}

// empty removes everything in the probe's own directory.
func empty(r *caproot.Root) error {
	entries, err := r.ReadDir(".")
	for _, e := range entries {
		err = errors.Join(err, r.RemoveAll(e.Name()))
	}
	return err
}

// kernel tries the system's own calls in the scratch directory, where that can
// be had as a file.
func (f *findings) kernel(r *caproot.Root) error {
	dir, err := r.File()
	if errors.Is(err, caproot.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	f.Features = append(f.Features, directoryFeatures(dir)...)
	return nil
}

// complete gives every feature that was not tried the answer unknown, and all
// of them their order.
func (f *findings) complete(failed error) {
	found := map[string]finding{}
	for _, one := range f.Features {
		found[one.Feature] = one
	}
	f.Features = nil
	for _, name := range features {
		one, ok := found[name]
		if !ok {
			one = finding{Feature: name, Here: unknown, Why: "not tried"}
			if failed != nil {
				one.Why = caproot.Code(failed)
			}
		}
		f.Features = append(f.Features, one)
	}
}

// require returns an error unless the feature is here.
func (f *findings) require(name string) error {
	for _, one := range f.Features {
		if one.Feature != name {
			continue
		}
		switch one.Here {
		case here:
			return nil
		case missing:
			return refusal{"unsupported", name + " is required and not here"}
		}
		break
	}
	return fmt.Errorf("%w: %s is required, and cannot be told", caproot.ErrUnsupported, name)
}

// errIgnored is the outcome of a flag that changes nothing.
var errIgnored = fmt.Errorf("%w: taken and ignored", errors.ErrUnsupported)

// tried makes a finding of the outcome of a try.
func tried(feature string, err error) finding {
	f := finding{Feature: feature, Here: here}
	if err != nil {
		f.Here, f.Why = unknown, reasonOf(err)
		if refusesKind(err) {
			f.Here = missing
		}
	}
	return f
}

// refusesKind is true for an answer that means the call or the flag is not
// there, and would not be on another try.
func refusesKind(err error) bool {
	// O_TMPFILE without support is EISDIR on kernels that do not know it.
	for _, no := range []error{errors.ErrUnsupported, syscall.EINVAL, syscall.ENOTTY, syscall.EPERM, syscall.EISDIR} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// reasonOf is the innermost text, without the names of the scratch directory.
func reasonOf(err error) string {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err.Error()
	case errors.As(err, &l):
		return l.Err.Error()
	}
	return err.Error()
}

func (f *findings) print(s *session, dir string) error {
	rows := [][2]string{
		{"directory", shown(dir)},
		{"containment", f.Containment},
		{"replacement of a known object", f.Replace},
		{"durability of a publication", f.Durability},
		{"lost", strings.Join(f.Lost, " ")},
	}
	for _, one := range f.Features {
		rows = append(rows, [2]string{one.Feature, join(string(one.Here), one.Value, one.Why)})
	}
	for _, one := range f.Verbs {
		rows = append(rows, [2]string{"verb " + one.Verb, join(one.Containment, one.Why)})
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(s.out, "%-30s %s\n", row[0], printable(row[1])); err != nil {
			return err
		}
	}
	return nil
}

func join(first string, more ...string) string {
	for _, text := range more {
		if text != "" {
			first += " (" + text + ")"
		}
	}
	return first
}
