package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/caproot/caproot/pathsafe"
)

type namesCommand struct {
	jsonFlag
	Profile   string   `enum:"host,portable,posix,windows,darwin" default:"portable" help:"Table of rules: ${enum}."`
	Null      bool     `short:"0" help:"Read spellings from standard input, each ended by a NUL."`
	Spellings []string `arg:"" optional:"" name:"spelling" help:"Paths to judge."`
}

// opinion is the JSON form of the verdict on a spelling.
type opinion struct {
	label
	OK   bool   `json:"ok"`
	Rule string `json:"rule,omitempty"`
}

// Run is called by kong.
func (c *namesCommand) Run(s *session) error {
	profile, err := pathsafe.ParseProfile(c.Profile)
	if err != nil {
		return usageError{err.Error()}
	}
	if c.Null == (len(c.Spellings) > 0) {
		return usageError{"names needs spellings, or -0 and none"}
	}
	code := exitDone
	judge := func(name string) error {
		ok, err := c.judge(s, name, profile)
		if !ok {
			code = exitNo
		}
		return err
	}
	if c.Null {
		err = eachNull(s.in, judge)
	}
	for _, name := range c.Spellings {
		if err == nil {
			err = judge(name)
		}
	}
	if err != nil {
		return err
	}
	return ended(code)
}

func (c *namesCommand) judge(s *session, name string, p pathsafe.Profile) (ok bool, err error) {
	_, refusal := pathsafe.Parse(name, p)
	o := opinion{label: labelOf(name), OK: refusal == nil}
	if e, ok := errors.AsType[*pathsafe.Error](refusal); ok {
		o.Rule = string(e.Rule)
	}
	if c.JSON {
		return o.OK, s.writeJSON(o)
	}
	word := "ok"
	if !o.OK {
		word = o.Rule
	}
	_, err = fmt.Fprintf(s.out, "%s\t%s\n", word, pathsafe.Quote(name))
	return o.OK, err
}

// maxSpelling is above every limit of every table, so that a longer text gets
// the verdict of too-long and not an error of reading.
const maxSpelling = 1 << 20

func eachNull(in io.Reader, use func(string) error) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, maxSpelling)
	scan.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for scan.Scan() {
		if err := use(scan.Text()); err != nil {
			return err
		}
	}
	return scan.Err()
}
