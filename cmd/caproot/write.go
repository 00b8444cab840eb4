package main

import (
	"context"
	"fmt"

	"github.com/caproot/caproot"
)

type putCommand struct {
	rootFlags
	jsonFlag
	Name      string `arg:"" help:"Name inside the root."`
	Parents   bool   `help:"Make missing directories."`
	NoReplace bool   `help:"Refuse to replace what has the name."`
	IfMatch   string `placeholder:"FILE" help:"Replace only the object of the receipt in FILE."`
	Mode      string `help:"Exact mode of the file, octal."`
	Digest    bool   `help:"Put the SHA-256 into the receipt."`
}

// Run is called by kong.
func (c *putCommand) Run(s *session) error {
	o := caproot.PutOptions{NoReplace: c.NoReplace, Digest: c.Digest, Parents: c.Parents}
	var err error
	if c.Mode != "" {
		if o.Mode, err = parseMode(c.Mode); err != nil {
			return err
		}
	}
	if c.IfMatch != "" {
		if o.IfMatch, err = s.oneReceipt(c.IfMatch); err != nil {
			return err
		}
	}
	return c.within(func(r *caproot.Root) error {
		receipt, err := r.PutFrom(context.Background(), c.Name, s.in, o)
		if err != nil || !c.JSON {
			return err
		}
		return s.writeJSON(receipt)
	})
}

type mkdirCommand struct {
	rootFlags
	jsonFlag
	Name    string `arg:"" help:"Name inside the root."`
	Parents bool   `short:"p" help:"Make missing parents; an existing directory is no error."`
}

// Run is called by kong.
func (c *mkdirCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		mkdir := r.Mkdir
		if c.Parents {
			mkdir = r.MkdirAll
		}
		if err := mkdir(c.Name, 0o777); err != nil || !c.JSON {
			return err
		}
		return s.writeJSON(outcome{"mkdir", labelOf(c.Name)})
	})
}

type mvCommand struct {
	rootFlags
	jsonFlag
	From    string `arg:"" help:"Name inside the root."`
	To      string `arg:"" help:"New name inside the root."`
	Replace bool   `help:"Replace what has the new name; never a directory."`
}

// Run is called by kong.
func (c *mvCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		receipt, err := r.Move(c.From, c.To, caproot.MoveOptions{Replace: c.Replace})
		if err != nil || !c.JSON {
			return err
		}
		return s.writeJSON(receipt)
	})
}

type rmCommand struct {
	rootFlags
	jsonFlag
	Name       string `arg:"" help:"Name inside the root."`
	Recursive  bool   `short:"r" help:"Remove a directory and everything below it."`
	IfMatch    string `placeholder:"FILE" help:"Remove only the object of the receipt in FILE. It says nothing of what is in a directory."`
	MaxEntries int64  `placeholder:"N" help:"With -r: remove no more than N names. What went before the limit was met is gone."`
	MaxDepth   int    `placeholder:"N" help:"With -r: empty no directory that is deeper below NAME than N. What went before one was met is gone."`
}

// removed is the JSON form of the end of a tree.
type removed struct {
	outcome
	Removed int64 `json:"removed"` // names, NAME included
}

// Run is called by kong.
func (c *rmCommand) Run(s *session) error {
	limits := caproot.TreeLimits{MaxEntries: c.MaxEntries, MaxDepth: c.MaxDepth}
	if limits.MaxEntries < 0 || limits.MaxDepth < 0 || !c.Recursive && limits != (caproot.TreeLimits{}) {
		return usageError{"--max-entries and --max-depth are positive and need -r"}
	}
	if c.Mounts != nil && *c.Mounts == caproot.MountsCross.String() {
		limits.Mounts = caproot.MountsCross
	}
	if c.IfMatch != "" {
		var err error
		if limits.IfMatch, err = s.oneReceipt(c.IfMatch); err != nil {
			return err
		}
	}
	return c.within(func(r *caproot.Root) error {
		done := any(outcome{"rm", labelOf(c.Name)})
		var err error
		switch {
		case c.Recursive:
			var report caproot.TreeReport
			report, err = removeTree(s, r, c.Name, limits)
			done = removed{outcome{"rm", labelOf(c.Name)}, report.Removed}
		case limits.IfMatch != nil:
			err = r.RemoveIf(c.Name, *limits.IfMatch)
		default:
			err = r.Remove(c.Name)
		}
		if err != nil || !c.JSON {
			return err
		}
		return s.writeJSON(done)
	})
}

// removeTree tells of a removal that did not come to its end how far it came.
func removeTree(s *session, r *caproot.Root, name string, limits caproot.TreeLimits) (caproot.TreeReport, error) {
	ctx, stop := untilSignal()
	defer stop()
	report, err := r.RemoveTree(ctx, name, limits)
	if ctx.Err() != nil && err != nil {
		err = stopped{"rm"}
	}
	if err != nil && report.Removed > 0 && !s.quiet {
		s.note(fmt.Sprintf("removed %d names before that", report.Removed))
	}
	return report, err
}
