package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot"
)

type catCommand struct {
	rootFlags
	jsonFlag
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
		limit := r.Policy().MaxReadBytes
		if err := admitCopy(f, limit); err != nil {
			return err
		}
		if c.JSON {
			return s.content(c.Name, func(to io.Writer) error { return copyLimited(to, f, limit) })
		}
		return copyLimited(s.out, f, limit)
	})
}

func tooLarge(f *caproot.File) error {
	return &fs.PathError{Op: "read", Path: f.Name(), Err: caproot.ErrTooLarge}
}

// admitCopy refuses what cannot be copied before anything is written.
func admitCopy(f *caproot.File, limit int64) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular() && info.Size() > limit:
		return tooLarge(f)
	case info.IsDir():
		_, err := f.Read(make([]byte, 1)) // the system's own answer
		return err
	}
	return nil
}

// copyLimited stops at the limit when the file grows meanwhile.
func copyLimited(to io.Writer, f *caproot.File, limit int64) error {
	if _, err := io.Copy(to, io.LimitReader(f, limit)); err != nil {
		return err
	}
	if limit == caproot.NoLimit {
		return nil
	}
	if n, _ := io.ReadFull(f, make([]byte, 1)); n > 0 {
		return tooLarge(f)
	}
	return nil
}

// entry is the JSON form of a directory entry.
type entry struct {
	label
	Type  string `json:"type"`
	Size  int64  `json:"size,string"`
	Mode  string `json:"mode"`
	MTime string `json:"mtime"`
}

func newEntry(name string, i fs.FileInfo) entry {
	return entry{
		label: labelOf(name), Type: typeName(i.Mode()), Size: i.Size(), Mode: formatMode(i.Mode()),
		MTime: i.ModTime().UTC().Format(time.RFC3339Nano),
	}
}

func (s *session) describeEntry(e entry, name string) error {
	_, err := fmt.Fprintf(s.out, "%-9s %s %12d %s %s\n", e.Type, e.Mode, e.Size, e.MTime, shown(name))
	return err
}

type lsCommand struct {
	rootFlags
	jsonFlag
	Name      string `arg:"" optional:"" default:"." help:"Directory inside the root."`
	Long      bool   `short:"l" help:"Type, mode, size in bytes, time and name."`
	Recursive bool   `short:"R" help:"Directories below too, with paths that begin at NAME."`
}

// Run is called by kong.
func (c *lsCommand) Run(s *session) error {
	return c.within(func(r *caproot.Root) error {
		if c.Recursive {
			return c.walk(s, r)
		}
		entries, err := r.ReadDir(c.Name)
		if err != nil {
			return err
		}
		code := exitDone
		for _, e := range entries {
			if err := c.show(s, e, e.Name(), &code); err != nil {
				return err
			}
		}
		return ended(code)
	})
}

// walk lists what is below NAME too, and goes on after what cannot be read.
func (c *lsCommand) walk(s *session, r *caproot.Root) error {
	start, err := r.OpenRoot(c.Name)
	if err != nil {
		return err
	}
	defer start.Close()
	o := caproot.WalkOptions{Sorted: true, InlineErrors: true, Mounts: r.Policy().Mounts}
	code := exitDone
	for e, err := range start.Walk(context.Background(), ".", o) {
		if err != nil {
			code = worse(code, s.fail(err))
			continue
		}
		if e.Truncated() {
			code = worse(code, s.fail(&fs.PathError{Op: "ls", Path: e.Path(), Err: caproot.ErrPolicy}))
			if c.Long || c.JSON {
				continue // it is not described either
			}
		}
		if err := c.show(s, e, e.Path(), &code); err != nil {
			return err
		}
	}
	return ended(code)
}

// show returns errors of writing only.
func (c *lsCommand) show(s *session, e fs.DirEntry, name string, code *int) error {
	if !c.Long && !c.JSON {
		_, err := fmt.Fprintln(s.out, shown(name))
		return err
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since the directory was read
	}
	if err != nil {
		*code = worse(*code, s.fail(err))
		return nil
	}
	if c.JSON {
		return s.writeJSON(newEntry(name, info))
	}
	return s.describeEntry(newEntry(name, info), name)
}

// below joins a directory's name and that of an entry. It is not path.Join,
// which resolves ".." as text; only the root may say what that is.
func below(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case name == ".":
		return dir
	}
	return dir + "/" + name
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
