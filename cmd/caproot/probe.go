package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

type probeCommand struct {
	jsonFlag
	Dir string `arg:"" optional:"" default:"." help:"Directory on the file system to probe."`
}

// findings is what a probe tells. Every field was tried, none is looked up.
type findings struct {
	Dir           string   `json:"dir"`
	Containment   string   `json:"containment"`     // how a path is kept inside
	Replace       string   `json:"replace_matched"` // how a replacement with a receipt is published
	Durability    string   `json:"durability"`      // of a publication that asks for "dir"
	Lost          []string `json:"lost"`            // codes of receipts
	Evidence      []string `json:"evidence"`        // of an ID: handle, generation, birth-time, mount
	SelfMatch     string   `json:"self_match"`      // verdict on a receipt of an untouched file
	SymbolicLinks bool     `json:"symbolic_links"`
	HardLinks     bool     `json:"hard_links"`
	CaseFolding   bool     `json:"case_folding"`
	Normalisation bool     `json:"normalisation"` // two Unicode forms are one name
}

// Run is called by kong.
func (c *probeCommand) Run(s *session) error {
	p := caproot.Workspace()
	p.Containment = caproot.KernelAtomic
	r, err := caproot.Open(c.Dir, p)
	f := findings{Dir: c.Dir, Containment: p.Containment.String(), Lost: []string{}, Evidence: []string{}}
	if errors.Is(err, caproot.ErrUnsupported) {
		p.Containment = caproot.Walked
		f.Containment = p.Containment.String()
		r, err = caproot.Open(c.Dir, p)
	}
	if err != nil {
		return openError{err}
	}
	defer r.Close()
	if err := f.probe(r); err != nil {
		return err
	}
	if c.JSON {
		return s.writeJSON(f)
	}
	return f.print(s)
}

func (f *findings) probe(r *caproot.Root) (err error) {
	scratch, err := r.MkdirTemp(".", ".caproot-probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.RemoveAll(scratch)) }()
	in, err := r.OpenRoot(scratch)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, step := range []func(*caproot.Root) error{f.publish, f.names, f.links} {
		if err := step(in); err != nil {
			return err
		}
	}
	return nil
}

func (f *findings) publish(r *caproot.Root) error {
	made, err := r.Put("file", nil, caproot.PutOptions{Durability: caproot.DurabilityDir})
	if err != nil {
		return err
	}
	f.Durability = made.Durability.String()
	f.SelfMatch = identity.Same.String()
	if err := r.Check(made); err != nil {
		mismatch, ok := errors.AsType[*caproot.MismatchError](err)
		if !ok {
			return err
		}
		f.SelfMatch = mismatch.Verdict.String()
	}
	f.evidence(made.ID)
	f.Lost = append(f.Lost, made.Lost...)
	put, err := r.Put("file", nil, caproot.PutOptions{IfMatch: &made})
	if errors.Is(err, caproot.ErrChanged) {
		f.Replace = "refused" // nothing here proves that the file is the same
		return nil
	}
	if err != nil {
		return err
	}
	f.Replace = put.Published.String()
	for _, lost := range put.Lost {
		if !slices.Contains(f.Lost, lost) {
			f.Lost = append(f.Lost, lost)
		}
	}
	return nil
}

func (f *findings) evidence(id identity.ID) {
	for _, e := range []struct {
		name string
		has  bool
	}{{"handle", id.Handle != ""}, {"generation", id.HasGen}, {"birth-time", id.HasBirth}, {"mount", id.Mount != 0}} {
		if e.has {
			f.Evidence = append(f.Evidence, e.name)
		}
	}
}

func (f *findings) names(r *caproot.Root) (err error) {
	if f.CaseFolding, err = oneName(r, "case", "CASE"); err != nil {
		return err
	}
	f.Normalisation, err = oneName(r, "\u00e9", "e\u0301")
	return err
}

// oneName reports whether a file made under one spelling is found under another.
func oneName(r *caproot.Root, made, other string) (bool, error) {
	if _, err := r.Put(made, nil, caproot.PutOptions{}); err != nil {
		return false, err
	}
	_, err := r.Lstat(other)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// links leaves the reason of a failure aside: what counts is whether it works.
func (f *findings) links(r *caproot.Root) error {
	f.SymbolicLinks = r.Symlink("file", "symbolic") == nil
	f.HardLinks = r.Link("file", "hard") == nil
	return nil
}

func (f *findings) print(s *session) error {
	yes := map[bool]string{true: "yes", false: "no"}
	for _, row := range [][2]string{
		{"directory", shown(f.Dir)},
		{"containment", f.Containment},
		{"replacement of a known object", f.Replace},
		{"durability of a publication", f.Durability},
		{"lost", fmt.Sprint(f.Lost)},
		{"evidence of identity", fmt.Sprint(f.Evidence)},
		{"an untouched file is proved", f.SelfMatch},
		{"symbolic links", yes[f.SymbolicLinks]},
		{"hard links", yes[f.HardLinks]},
		{"names fold case", yes[f.CaseFolding]},
		{"names are normalised", yes[f.Normalisation]},
	} {
		if _, err := fmt.Fprintf(s.out, "%-30s %s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}
