package main

import (
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/caproot/caproot"
)

// rootFlags are the root and its policy. A rule that is not said is the policy's.
type rootFlags struct {
	Root          string   `arg:"" help:"Directory that is not left."`
	Policy        string   `default:"workspace" placeholder:"POLICY" help:"read-only, workspace, extract, compat, or a file FILE.json. Default: workspace."`
	Links         *string  `enum:"refuse,follow-parents,follow,resolve-in-root" placeholder:"RULE" help:"Symbolic links that reading follows: ${enum}."`
	MutationLinks *string  `enum:"refuse,follow-parents,follow,resolve-in-root" placeholder:"RULE" help:"Symbolic links that changing follows: ${enum}."`
	Hardlinks     *string  `enum:"refuse,refuse-mutation,allow" placeholder:"RULE" help:"Files with more than one name: ${enum}."`
	Mounts        *string  `enum:"stay,cross" placeholder:"RULE" help:"Mount points in the way: ${enum}."`
	Special       *string  `enum:"refuse,allow" placeholder:"RULE" help:"FIFOs, sockets and devices: ${enum}."`
	Names         *string  `enum:"host,portable" placeholder:"RULES" help:"Names that are accepted: ${enum}."`
	MaxBytes      *int64   `placeholder:"N" help:"Limit on the size of a file that is read or written, in bytes."`
	Durability    *string  `enum:"none,file,dir" placeholder:"WHAT" help:"What is on stable storage when the command ends: ${enum}."`
	Deny          []string `sep:"none" placeholder:"NAME" help:"Withhold this name in the root, and what it leads to; repeatable."`
	RequireKernel bool     `help:"Refuse unless the kernel resolves whole paths inside the root."`
}

// policy gives the policy as the flags change it.
func (f *rootFlags) policy() (caproot.Policy, error) {
	p, err := readPolicy(f.Policy)
	if err != nil {
		return p, err
	}
	for _, rule := range []struct {
		said  *string
		field encoding.TextUnmarshaler
	}{
		{f.Links, &p.Links}, {f.MutationLinks, &p.MutationLinks}, {f.Hardlinks, &p.Hardlinks}, {f.Mounts, &p.Mounts},
		{f.Special, &p.Special}, {f.Names, &p.Names}, {f.Durability, &p.Durability},
	} {
		if rule.said == nil {
			continue
		}
		if err := rule.field.UnmarshalText([]byte(*rule.said)); err != nil {
			return p, usageError{err.Error()}
		}
	}
	if f.MaxBytes != nil {
		if *f.MaxBytes < 0 {
			return p, usageError{"--max-bytes is negative"}
		}
		p.MaxReadBytes, p.MaxWriteBytes = min(p.MaxReadBytes, *f.MaxBytes), min(p.MaxWriteBytes, *f.MaxBytes)
	}
	if f.RequireKernel {
		p.Containment = caproot.KernelAtomic
	}
	return p, nil
}

// maxPolicyFile is far above the longest policy, which has about 600 bytes.
const maxPolicyFile = 64 << 10

// readPolicy gives a preset by its name, or what a file says.
func readPolicy(name string) (p caproot.Policy, err error) {
	switch name {
	case "read-only":
		return caproot.ReadOnly(), nil
	case "workspace":
		return caproot.Workspace(), nil
	case "extract":
		return caproot.Extract(), nil
	case "compat":
		return caproot.Compat(), nil
	}
	if !strings.HasSuffix(name, ".json") {
		return p, usageError{"--policy is none of read-only, workspace, extract, compat and no file FILE.json"}
	}
	file, err := os.Open(name)
	if err != nil {
		return p, inputError{err}
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPolicyFile+1))
	if err == nil && len(text) > maxPolicyFile {
		err = errors.New("too long for a policy")
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, inputError{&fs.PathError{Op: "policy", Path: name, Err: err}}
	}
	return p, nil
}

// within opens the root for one use.
func (f *rootFlags) within(use func(*caproot.Root) error) error {
	p, err := f.policy()
	if err != nil {
		return err
	}
	return f.withinBy(p, use)
}

// withinBy opens the root under another policy than the flags say.
func (f *rootFlags) withinBy(p caproot.Policy, use func(*caproot.Root) error) error {
	r, err := caproot.Open(f.Root, p)
	if err != nil {
		return openError{err}
	}
	defer r.Close()
	if len(f.Deny) == 0 {
		return use(r)
	}
	granted, err := r.Grant(".", caproot.Grant{Policy: p, Deny: f.Deny})
	if err != nil {
		return err
	}
	defer granted.Close()
	return use(granted)
}
