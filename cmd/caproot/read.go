package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unicode/utf8"

	"github.com/caproot/caproot"
)

type catCommand struct {
	rootFlags
	Name string `arg:"" help:"Name inside the root."`
}

// Run is called by kong.
func (c *catCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		f, err := r.OpenView(c.Name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return copyLimited(s.out, f, r.Policy().MaxReadBytes)
	})
}

// copyLimited refuses a file that is too long before it writes anything, and
// stops at the limit when the file grows meanwhile.
func copyLimited(to io.Writer, f *caproot.File, limit int64) error {
	tooLarge := &fs.PathError{Op: "read", Path: f.Name(), Err: caproot.ErrTooLarge}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() && info.Size() > limit {
		return tooLarge
	}
	if _, err := io.Copy(to, io.LimitReader(f, limit)); err != nil {
		return err
	}
	if limit == caproot.NoLimit {
		return nil
	}
	if n, _ := io.ReadFull(f, make([]byte, 1)); n > 0 {
		return tooLarge
	}
	return nil
}

// entry is the JSON form of a directory entry.
type entry struct {
	Name    string `json:"name,omitempty"`
	NameB64 []byte `json:"name_b64,omitempty"` // for a name that is not UTF-8
	Type    string `json:"type"`
	Size    int64  `json:"size,string"`
	Mode    string `json:"mode"`
	MTime   string `json:"mtime"`
}

func newEntry(name string, i fs.FileInfo) entry {
	e := entry{Type: typeName(i.Mode()), Size: i.Size(), Mode: formatMode(i.Mode()), MTime: i.ModTime().UTC().Format(time.RFC3339Nano)}
	if utf8.ValidString(name) {
		e.Name = name
	} else {
		e.NameB64 = []byte(name)
	}
	return e
}

// typeName gives the words that receipts have.
func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeCharDevice != 0:
		return "char"
	case mode&fs.ModeDevice != 0:
		return "block"
	}
	return "irregular"
}

func (s *session) describeEntry(e entry, name string) error {
	_, err := fmt.Fprintf(s.out, "%-9s %s %12d %s %s\n", e.Type, e.Mode, e.Size, e.MTime, shown(name))
	return err
}

type lsCommand struct {
	rootFlags
	jsonFlag
	Name string `arg:"" optional:"" default:"." help:"Directory inside the root."`
	Long bool   `short:"l" help:"Type, mode, size in bytes, time and name."`
}

// Run is called by kong.
func (c *lsCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		entries, err := r.ReadDir(c.Name)
		if err != nil {
			return err
		}
		code := exitDone
		for _, e := range entries {
			if err := c.show(s, e); err != nil {
				code = worse(code, s.fail(err))
			}
		}
		return ended(code)
	})
}

func (c *lsCommand) show(s *session, e fs.DirEntry) error {
	if !c.Long && !c.JSON {
		_, err := fmt.Fprintln(s.out, shown(e.Name()))
		return err
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	if c.JSON {
		return s.writeJSON(newEntry(e.Name(), info))
	}
	return s.describeEntry(newEntry(e.Name(), info), e.Name())
}

// ended is the status of a batch, nil when all went well.
func ended(code int) error {
	if code == exitDone {
		return nil
	}
	return status(code)
}

type statCommand struct {
	rootFlags
	jsonFlag
	Name   string `arg:"" help:"Name inside the root."`
	Follow bool   `short:"L" help:"Describe what a link leads to."`
}

// Run is called by kong.
func (c *statCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		look := r.Lstat
		if c.Follow {
			look = r.Stat
		}
		info, err := look(c.Name)
		if err != nil {
			return err
		}
		if c.JSON {
			return s.writeJSON(newEntry(c.Name, info))
		}
		return s.describeEntry(newEntry(c.Name, info), c.Name)
	})
}
