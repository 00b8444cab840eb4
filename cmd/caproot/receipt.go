package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

type receiptCommand struct {
	rootFlags
	jsonFlag        // a receipt has no other form, so the flag changes nothing
	Name     string `arg:"" help:"Name inside the root."`
	Digest   bool   `help:"Read the whole file for its SHA-256."`
}

// Run is called by kong.
func (c *receiptCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		var evidence []caproot.Evidence
		if c.Digest {
			evidence = append(evidence, caproot.WithDigest)
		}
		receipt, err := r.Receipt(c.Name, evidence...)
		if err != nil {
			return err
		}
		return s.writeJSON(receipt)
	})
}

type checkCommand struct {
	rootFlags
	jsonFlag
	Files      []string `arg:"" optional:"" name:"receipt" help:"Files with one receipt a line; - is standard input."`
	Receipts   []string `placeholder:"FILE" sep:"none" help:"A further file of receipts."`
	AllowEmpty bool     `help:"Take a file without receipts. Without this it proves nothing: exit code 3."`
}

// Run is called by kong.
func (c *checkCommand) Run(s *session) error {
	files := append(c.Files, c.Receipts...)
	if len(files) == 0 {
		return usageError{"check needs a file of receipts"}
	}
	return c.within(func(r *caproot.Root) error {
		code, same, all := exitDone, 0, 0
		for _, file := range files {
			here := all
			err := s.eachReceipt(file, func(want identity.Receipt) error {
				got, err := c.one(s, r, want)
				if all++; got == exitDone {
					same++
				}
				code = worse(code, got)
				return err
			})
			if err == nil && all == here && !c.AllowEmpty {
				err = noReceipts{file}
			}
			if err != nil {
				code = worse(code, s.fail(err))
			}
		}
		if !s.quiet {
			s.note(fmt.Sprintf("checked %d receipts: %d same, %d not", all, same, all-same))
		}
		return ended(code)
	})
}

// verdict is the JSON form of the answer to one receipt.
type verdict struct {
	Path    *string `json:"path,omitempty"`
	PathB64 []byte  `json:"path_b64,omitempty"` // for a path that is not UTF-8
	Verdict string  `json:"verdict"`            // same, different, unknown, or error
	Reason  string  `json:"reason,omitempty"`   // of package identity, or the code of the error
}

// one checks a receipt and returns the exit code for it. The error is of writing.
func (c *checkCommand) one(s *session, r *caproot.Root, want identity.Receipt) (code int, err error) {
	found := r.Check(want)
	v := verdict{Verdict: identity.Same.String()}
	if mismatch, ok := errors.AsType[*caproot.MismatchError](found); ok {
		v.Verdict, v.Reason = mismatch.Verdict.String(), string(mismatch.Reason)
	} else if found != nil {
		v.Verdict, v.Reason = "error", caproot.Code(found)
	}
	switch {
	case c.JSON:
		path := labelOf(want.Path)
		v.Path, v.PathB64 = path.Name, path.NameB64
		err = s.writeJSON(v)
	case found != nil:
		_, err = fmt.Fprintf(s.out, "%s %s %s\n", v.Verdict, v.Reason, shown(want.Path))
	}
	return exitOf(found), err
}

// eachReceipt calls use for each line of a file.
func (s *session) eachReceipt(file string, use func(identity.Receipt) error) error {
	in := s.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return inputError{err}
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, identity.MaxReceiptBytes+2) // and a line end
	for number := 1; lines.Scan(); number++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var r identity.Receipt
		if err := r.UnmarshalJSON(lines.Bytes()); err != nil {
			return inputError{&fs.PathError{Op: "receipt", Path: file, Err: fmt.Errorf("line %d: %w", number, err)}}
		}
		if err := use(r); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return inputError{&fs.PathError{Op: "receipt", Path: file, Err: err}}
	}
	return nil
}

// oneReceipt reads a file that has exactly one receipt.
func (s *session) oneReceipt(file string) (only *identity.Receipt, err error) {
	if file == "-" {
		return nil, usageError{"a receipt to match is read from a file"}
	}
	err = s.eachReceipt(file, func(r identity.Receipt) error {
		if only != nil {
			return inputError{&fs.PathError{Op: "receipt", Path: file, Err: errors.New("more than one receipt")}}
		}
		only = &r
		return nil
	})
	if err == nil && only == nil {
		err = inputError{&fs.PathError{Op: "receipt", Path: file, Err: io.ErrUnexpectedEOF}}
	}
	return only, err
}
