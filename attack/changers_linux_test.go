package attack

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"github.com/caproot/caproot"
)

var content = []byte("written inside")

// quick does not wait for the disk.
var quick = caproot.PutOptions{Durability: caproot.DurabilityNone}

// changing is a verb that gives nothing to read.
func changing(name string, f func(name, other string) error) verb {
	return verb{name, func(n, o string) (any, error) { return nil, f(n, o) }}
}

// publishingVerbs give a name to new content.
func publishingVerbs(r *caproot.Root) []verb {
	ctx := context.Background()
	parents := quick
	parents.Parents = true
	return []verb{
		changing("Put", func(n, _ string) error { _, err := r.Put(n, content, quick); return err }),
		changing("Put with parents", func(n, _ string) error { _, err := r.Put(n, content, parents); return err }),
		changing("Put if match", func(n, o string) error {
			seen, err := r.Receipt(o)
			if err != nil {
				return err
			}
			options := quick
			options.IfMatch = &seen
			_, err = r.Put(n, content, options)
			return err
		}),
		changing("PutFrom", func(n, _ string) error {
			_, err := r.PutFrom(ctx, n, strings.NewReader(string(content)), quick)
			return err
		}),
		changing("Stage", func(n, _ string) error {
			s, err := r.Stage(n, quick)
			if err != nil {
				return err
			}
			defer s.Abort()
			if _, err := s.Write(content); err != nil {
				return err
			}
			_, err = s.Commit()
			return err
		}),
		changing("Batch", func(n, o string) error {
			b := r.Batch(caproot.BatchOptions{Barrier: caproot.BarrierFiles})
			defer b.Abort()
			if err := b.Put(n, content, quick); err != nil {
				return err
			}
			if err := b.Put(o, content, quick); err != nil {
				return err
			}
			_, err := b.Commit(ctx)
			return err
		}),
	}
}

// unnamedVerbs name files that had none, and what is like it.
func unnamedVerbs(r *caproot.Root) []verb {
	return []verb{
		changing("CopyFS", func(n, _ string) error {
			return r.CopyFS(n, fstest.MapFS{"new": {Data: content}, "b/new": {Data: content}})
		}),
		changing("CreateUnnamed", func(n, _ string) error {
			f, err := r.CreateUnnamed(n)
			if err != nil {
				return err
			}
			defer f.Close()
			return r.NameUnnamed(f, filepath.Join(n, "named"))
		}),
		changing("NameUnnamed", func(n, _ string) error {
			f, err := r.CreateUnnamed(".")
			if err != nil {
				return err
			}
			defer f.Close()
			return r.NameUnnamed(f, n)
		}),
		changing("Sweep", func(n, _ string) error { _, err := r.Sweep(n); return err }),
	}
}

// inPlaceVerbs change what a name leads to. The owner that is given is the one
// that it has: where that arrives, the time of the change tells.
func inPlaceVerbs(r *caproot.Root) []verb {
	uid, gid := os.Getuid(), os.Getgid()
	return []verb{
		changing("Append", func(n, _ string) error { _, err := r.Append(n, []byte("+"), caproot.AppendOptions{}); return err }),
		changing("WriteFile", func(n, _ string) error { return r.WriteFile(n, content, 0o644) }),
		changing("Create", func(n, _ string) error { f, err := r.Create(n); _, err = drain(f, err); return err }),
		changing("OpenFile", func(n, _ string) error {
			f, err := r.OpenFile(n, os.O_RDWR|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Write([]byte("+"))
			return err
		}),
		changing("OpenView for writing", func(n, _ string) error {
			f, err := r.OpenView(n, os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(content, 0)
			return err
		}),
		changing("Truncate", func(n, _ string) error { return r.Truncate(n, 3) }),
		changing("Chmod", func(n, _ string) error { return r.Chmod(n, 0o755) }),
		changing("Chown", func(n, _ string) error { return r.Chown(n, uid, gid) }),
		changing("Lchown", func(n, _ string) error { return r.Lchown(n, uid, gid) }),
		changing("Chtimes", func(n, _ string) error { return r.Chtimes(n, time.Time{}, time.Unix(1, 0)) }),
	}
}

// namingVerbs make, move and remove names.
func namingVerbs(r *caproot.Root) []verb {
	ctx := context.Background()
	held := func(f func(n, o string, open *os.File) error) func(n, o string) error {
		return func(n, o string) error {
			open, err := r.OpenFileNoFollow(n, os.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer open.Close()
			return f(n, o, open)
		}
	}
	return []verb{
		changing("Mkdir", func(n, _ string) error { return r.Mkdir(n, 0o755) }),
		changing("MkdirAll", func(n, _ string) error { return r.MkdirAll(n, 0o755) }),
		changing("MkdirTemp", func(n, _ string) error {
			name, err := r.MkdirTemp(n, "t*")
			if err == nil {
				err = r.Remove(name)
			}
			return err
		}),
		changing("CreateTemp", func(n, _ string) error {
			f, name, err := r.CreateTemp(n, "t*")
			if err == nil {
				_, err = drain(f, r.Remove(name))
			}
			return err
		}),
		changing("Remove", func(n, _ string) error { return r.Remove(n) }),
		changing("RemoveAll", func(n, _ string) error { return r.RemoveAll(n) }),
		changing("RemoveTree", func(n, _ string) error {
			_, err := r.RemoveTree(ctx, n, caproot.TreeLimits{Workers: 1 + len(n)%2, Force: true})
			return err
		}),
		changing("RemoveIf", func(n, o string) error {
			seen, err := r.Receipt(o)
			if err != nil {
				return err
			}
			return r.RemoveIf(n, seen)
		}),
		changing("RemoveSame", held(func(n, _ string, open *os.File) error { return r.RemoveSame(n, open) })),
		changing("CheckSame", held(func(_, o string, open *os.File) error { return r.CheckSame(o, open) })),
		changing("MoveSame", held(func(n, o string, open *os.File) error { return r.MoveSame(n, o, open) })),
		changing("Rename", func(n, o string) error { return r.Rename(n, o) }),
		changing("Move", func(n, o string) error { _, err := r.Move(n, o, caproot.MoveOptions{Replace: true}); return err }),
		changing("Move across", func(n, o string) error {
			_, err := r.Move(n, o, caproot.MoveOptions{CrossDevice: true})
			return err
		}),
		changing("Exchange", func(n, o string) error { _, err := r.Exchange(n, o, caproot.MoveOptions{}); return err }),
		changing("Link", func(n, o string) error { return r.Link(n, o) }),
		changing("Symlink", func(n, o string) error { return r.Symlink(filepath.Base(o), n) }),
	}
}
