package main

import (
	"fmt"
	"io/fs"
	"strconv"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
)

// rootFlags are the root and its policy.
type rootFlags struct {
	Root          string `arg:"" help:"Directory that is not left."`
	Policy        string `enum:"read-only,workspace,extract,compat" default:"workspace" help:"Preset: ${enum}."`
	Names         string `enum:"host,portable," default:"" help:"Which names are accepted: host or portable."`
	Durability    string `enum:"none,file,dir," default:"" help:"What is on stable storage when the command ends: none, file or dir."`
	MaxBytes      int64  `help:"Limit on the size of a file that is read or written, in bytes."`
	RequireKernel bool   `help:"Refuse unless the kernel resolves whole paths inside the root."`
}

// policy gives the preset as the flags change it.
func (f *rootFlags) policy() (caproot.Policy, error) {
	presets := map[string]func() caproot.Policy{
		"read-only": caproot.ReadOnly, "workspace": caproot.Workspace, "extract": caproot.Extract, "compat": caproot.Compat,
	}
	p := presets[f.Policy]()
	if f.Names != "" {
		profile, err := pathsafe.ParseProfile(f.Names)
		if err != nil {
			return p, usageError{err.Error()}
		}
		p.Names = profile
	}
	if f.Durability != "" {
		if err := p.Durability.UnmarshalText([]byte(f.Durability)); err != nil {
			return p, usageError{err.Error()}
		}
	}
	if f.MaxBytes < 0 {
		return p, usageError{"--max-bytes is negative"}
	}
	if f.MaxBytes > 0 {
		p.MaxReadBytes, p.MaxWriteBytes = min(p.MaxReadBytes, f.MaxBytes), min(p.MaxWriteBytes, f.MaxBytes)
	}
	if f.RequireKernel {
		p.Containment = caproot.KernelAtomic
	}
	return p, nil
}

// within opens the root for one use.
func (f *rootFlags) within(use func(*caproot.Root) error) error {
	p, err := f.policy()
	if err != nil {
		return err
	}
	r, err := caproot.Open(f.Root, p)
	if err != nil {
		return openError{err}
	}
	defer r.Close()
	return use(r)
}

// parseMode reads the octal digits of chmod(1). Zero is refused: the library
// takes it for "not said".
func parseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil || n == 0 {
		return 0, usageError{fmt.Sprintf("mode %q is not an octal number from 1 to 7777", text)}
	}
	mode := fs.FileMode(n) & fs.ModePerm
	for _, b := range specialBits {
		if n&b.octal != 0 {
			mode |= b.mode
		}
	}
	return mode, nil
}

// formatMode is the opposite of parseMode.
func formatMode(mode fs.FileMode) string {
	n := uint64(mode.Perm())
	for _, b := range specialBits {
		if mode&b.mode != 0 {
			n |= b.octal
		}
	}
	return fmt.Sprintf("%04o", n)
}

var specialBits = []struct {
	octal uint64
	mode  fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}
