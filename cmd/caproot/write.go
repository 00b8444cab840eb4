package main

import (
	"context"

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
	Name      string `arg:"" help:"Name inside the root."`
	Recursive bool   `short:"r" help:"Remove a directory and everything below it."`
	IfMatch   string `placeholder:"FILE" help:"Remove only the object of the receipt in FILE."`
}

// Run is called by kong.
func (c *rmCommand) Run(s *session) error {
	if c.Recursive && c.IfMatch != "" {
		return usageError{"-r and --if-match exclude each other: a receipt says nothing of what is in a directory"}
	}
	remove := c.remove
	if c.IfMatch != "" {
		want, err := s.oneReceipt(c.IfMatch)
		if err != nil {
			return err
		}
		remove = func(r *caproot.Root) error { return r.RemoveIf(c.Name, *want) }
	}
	return c.within(func(r *caproot.Root) error {
		if err := remove(r); err != nil || !c.JSON {
			return err
		}
		return s.writeJSON(outcome{"rm", labelOf(c.Name)})
	})
}

func (c *rmCommand) remove(r *caproot.Root) error {
	if !c.Recursive {
		return r.Remove(c.Name)
	}
	// RemoveAll takes a missing name for success; a script that misspelt one
	// wants to know.
	if _, err := r.Lstat(c.Name); err != nil {
		return err
	}
	return r.RemoveAll(c.Name)
}
