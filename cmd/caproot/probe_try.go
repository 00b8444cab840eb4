package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

// publish makes a file and replaces it as the object of its receipt.
func (f *findings) publish(r *caproot.Root) error {
	made, err := r.Put("file", nil, caproot.PutOptions{Durability: caproot.DurabilityDir})
	if err != nil {
		return err
	}
	f.Durability = made.Durability.String()
	f.Lost = append(f.Lost, made.Lost...)
	proof := finding{Feature: "identity-proof", Here: here}
	if err := r.Check(made); err != nil {
		mismatch, ok := errors.AsType[*caproot.MismatchError](err)
		if !ok {
			return err
		}
		proof.Here, proof.Why = missing, string(mismatch.Reason)
	}
	f.Features = append(f.Features, proof, has("birth-time", made.ID.HasBirth), has("mount-id", made.ID.Mount != 0),
		has("dir-fsync", made.Durability == caproot.DurabilityDir))
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

func has(feature string, yes bool) finding {
	if yes {
		return finding{Feature: feature, Here: here}
	}
	return finding{Feature: feature, Here: missing, Why: "not reported"}
}

func (f *findings) names(r *caproot.Root) error {
	for _, try := range [][3]string{{"case-folding", "case", "CASE"}, {"normalisation", "\u00e9", "e\u0301"}} {
		f.Features = append(f.Features, oneName(r, try[0], try[1], try[2]))
	}
	return nil
}

// oneName tells whether a file made under one spelling is found under another.
// The directory is the probe's own, so no other file can be what is found.
func oneName(r *caproot.Root, feature, made, other string) finding {
	if _, err := r.Put(made, nil, caproot.PutOptions{}); err != nil {
		return finding{Feature: feature, Here: unknown, Why: reasonOf(err)}
	}
	_, err := r.Lstat(other)
	switch {
	case err == nil:
		return finding{Feature: feature, Here: here}
	case errors.Is(err, fs.ErrNotExist):
		return finding{Feature: feature, Here: missing, Why: "two names"}
	}
	return finding{Feature: feature, Here: unknown, Why: reasonOf(err)}
}

func (f *findings) links(r *caproot.Root) error {
	f.Features = append(f.Features, tried("symlink", r.Symlink("file", "symbolic")), tried("hardlink", r.Link("file", "hard")))
	return nil
}

// deep is where the verbs are tried: a directory of several components, which
// one call or several find.
const deep = "deep/er/"

// verbTry does one verb. Where the verb gives a receipt, that tells how the path
// was kept inside; the others succeed under a policy that requires the kernel
// only if the kernel did it.
type verbTry struct {
	verb string
	do   func(r *caproot.Root) (identity.Receipt, error)
}

func (f *findings) verbs(r *caproot.Root) error {
	if err := r.MkdirAll(deep, 0o700); err != nil {
		return err
	}
	for _, try := range verbTries {
		receipt, err := try.do(r)
		v := verbFinding{Verb: try.verb, Containment: r.Policy().Containment.String()}
		if receipt.Op != "" {
			v.Containment = receipt.Containment.String()
		}
		if err != nil {
			v.Containment, v.Why = string(unknown), reasonOf(err)
		}
		f.Verbs = append(f.Verbs, v)
	}
	// These enter each directory by its handle, whatever the kernel has.
	for _, verb := range []string{"mkdirall", "removeall", "removetree", "walk"} {
		f.Verbs = append(f.Verbs, verbFinding{Verb: verb, Containment: caproot.Walked.String()})
	}
	return nil
}

// verbTries build on each other: what is removed last was put first.
var verbTries = []verbTry{
	{"put", func(r *caproot.Root) (identity.Receipt, error) { return r.Put(deep+"f", nil, caproot.PutOptions{}) }},
	{"append", func(r *caproot.Root) (identity.Receipt, error) {
		return r.Append(deep+"f", []byte("x"), caproot.AppendOptions{})
	}},
	{"receipt", func(r *caproot.Root) (identity.Receipt, error) { return r.Receipt(deep + "f") }},
	{"move", func(r *caproot.Root) (identity.Receipt, error) {
		return r.Move(deep+"f", deep+"g", caproot.MoveOptions{})
	}},
	{"open", without(func(r *caproot.Root) error {
		file, err := r.OpenView(deep+"g", os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return file.Close()
	})},
	{"readfile", without(func(r *caproot.Root) error { _, err := r.ReadFile(deep + "g"); return err })},
	{"stat", without(func(r *caproot.Root) error { _, err := r.Stat(deep + "g"); return err })},
	{"lstat", without(func(r *caproot.Root) error { _, err := r.Lstat(deep + "g"); return err })},
	{"readdir", without(func(r *caproot.Root) error { _, err := r.ReadDir(deep); return err })},
	{"writefile", without(func(r *caproot.Root) error { return r.WriteFile(deep+"g", nil, 0o600) })},
	{"truncate", without(func(r *caproot.Root) error { return r.Truncate(deep+"g", 1) })},
	{"chmod", without(func(r *caproot.Root) error { return r.Chmod(deep+"g", 0o600) })},
	{"chtimes", without(func(r *caproot.Root) error { return r.Chtimes(deep+"g", time.Time{}, time.Unix(1, 0)) })},
	{"mkdir", without(func(r *caproot.Root) error { return r.Mkdir(deep+"d", 0o700) })},
	{"rename", without(func(r *caproot.Root) error { return r.Rename(deep+"g", deep+"h") })},
	{"link", without(func(r *caproot.Root) error { return r.Link(deep+"h", deep+"hard") })},
	{"symlink", without(func(r *caproot.Root) error { return r.Symlink("h", deep+"soft") })},
	{"readlink", without(func(r *caproot.Root) error { _, err := r.Readlink(deep + "soft"); return err })},
	{"remove", without(func(r *caproot.Root) error { return r.Remove(deep + "h") })},
}

func without(do func(*caproot.Root) error) func(*caproot.Root) (identity.Receipt, error) {
	return func(r *caproot.Root) (identity.Receipt, error) { return identity.Receipt{}, do(r) }
}
