package caproot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing/fstest"
	"time"

	"github.com/caproot/caproot/identity"
)

// verbs has every verb with one name, as a function of it.
func verbs(r *Root) map[string]func(name string) error {
	return map[string]func(string) error{
		"Open": func(n string) error {
			f, err := r.Open(n)
			if err == nil {
				f.Close()
			}
			return err
		},
		"OpenView": func(n string) error {
			f, err := r.OpenView(n, os.O_RDONLY, 0)
			if err == nil {
				f.Close()
			}
			return err
		},
		"OpenRoot": func(n string) error {
			s, err := r.OpenRoot(n)
			if err == nil {
				s.Close()
			}
			return err
		},
		"Create": func(n string) error {
			f, err := r.Create(n)
			if err == nil {
				f.Close()
			}
			return err
		},
		"ReadFile":  func(n string) error { _, err := r.ReadFile(n); return err },
		"WriteFile": func(n string) error { return r.WriteFile(n, []byte("x"), 0o600) },
		"Put":       func(n string) error { _, err := r.Put(n, []byte("x"), PutOptions{}); return err },
		"PutParents": func(n string) error {
			_, err := r.Put(n, []byte("x"), PutOptions{Parents: true})
			return err
		},
		"Batch": func(n string) error {
			b := r.Batch(BatchOptions{})
			defer b.Abort()
			if err := errors.Join(b.Put("batched", []byte("x"), PutOptions{}), b.Put(n, []byte("x"), PutOptions{})); err != nil {
				return err
			}
			_, err := b.Commit(context.Background())
			return err
		},
		"CopyInTo": func(n string) error {
			_, err := r.CopyIn(context.Background(), n, Source{Root: r, Name: "f"}, CopyOptions{})
			return err
		},
		"CopyInFrom": func(n string) error {
			_, err := r.CopyIn(context.Background(), "copied", Source{Root: r, Name: n}, CopyOptions{})
			return err
		},
		"CopyTreeTo": func(n string) error {
			// Of the directory itself, if that is the one the attack acts on.
			_, err := r.CopyTree(context.Background(), aboveVictim(n), r, "dir", TreeCopyOptions{})
			return err
		},
		"CopyTreeFrom": func(n string) error {
			_, err := r.CopyTree(context.Background(), "copies", r, aboveVictim(n), TreeCopyOptions{Symlinks: LinksSkip, Workers: 2})
			if data, rerr := r.ReadFile("copies/secret"); rerr == nil {
				return errors.Join(errSawOutside, errors.New(string(data)))
			}
			return err
		},
		"CopyFS": func(n string) error {
			return r.CopyFS(aboveVictim(n), fstest.MapFS{"new": {Data: []byte("x")}})
		},
		"Append":   func(n string) error { _, err := r.Append(n, []byte("x"), AppendOptions{}); return err },
		"Truncate": func(n string) error { return r.Truncate(n, 0) },
		"Stat":     func(n string) error { _, err := r.Stat(n); return err },
		"Lstat":    func(n string) error { _, err := r.Lstat(n); return err },
		"Exists":   func(n string) error { _, err := r.Exists(n); return err },
		"Readlink": func(n string) error { _, err := r.Readlink(n); return err },
		"ReadDir":  func(n string) error { _, err := r.ReadDir(n); return err },
		"Mkdir":    func(n string) error { return r.Mkdir(n, 0o755) },
		"MkdirAll": func(n string) error { return r.MkdirAll(n, 0o755) },
		// 0700 and not less: directories stay ones that a test can remove.
		"Chmod":   func(n string) error { return r.Chmod(n, 0o700) },
		"Chown":   func(n string) error { return r.Chown(n, -1, -1) },
		"Lchown":  func(n string) error { return r.Lchown(n, -1, -1) },
		"Chtimes": func(n string) error { return r.Chtimes(n, time.Now(), time.Now()) },
		"Remove":  func(n string) error { return r.Remove(n) },
		"RemoveAll": func(n string) error {
			return r.RemoveAll(n)
		},
		"RemoveTree": func(n string) error {
			_, err := r.RemoveTree(context.Background(), n, TreeLimits{})
			return err
		},
		"RemoveTree4": func(n string) error {
			_, err := r.RemoveTree(context.Background(), n, TreeLimits{Workers: 4, Force: true})
			return err
		},
		"RenameFrom":   func(n string) error { return r.Rename(n, "moved") },
		"RenameTo":     func(n string) error { return r.Rename("f", n) },
		"MoveFrom":     func(n string) error { _, err := r.Move(n, "moved", MoveOptions{}); return err },
		"MoveTo":       func(n string) error { _, err := r.Move("f", n, MoveOptions{}); return err },
		"ExchangeFrom": func(n string) error { _, err := r.Exchange(n, "f", MoveOptions{}); return err },
		"ExchangeTo":   func(n string) error { _, err := r.Exchange("f", n, MoveOptions{}); return err },
		"LinkFrom":     func(n string) error { return r.Link(n, "linked") },
		"LinkTo":       func(n string) error { return r.Link("f", n) },
		"Symlink":      func(n string) error { return r.Symlink("f", n) },
		"Receipt":      func(n string) error { _, err := r.Receipt(n); return err },
		"Check":        func(n string) error { return r.Check(identity.Receipt{Path: n}) },
		"RemoveIf":     func(n string) error { return r.RemoveIf(n, identity.Receipt{}) },
		"Sweep":        func(n string) error { _, err := r.Sweep(n); return err },
		"Walk":         func(n string) error { return walkVerb(r, n, WalkOptions{Info: true, FollowLinks: true}) },
		"Walk4":        func(n string) error { return walkVerb(r, n, WalkOptions{Workers: 4}) },
		"WalkDir": func(n string) error {
			failing := func(_ string, _ fs.DirEntry, err error) error { return err }
			if err := r.WalkDir(aboveVictim(n), failing); err != nil {
				return err
			}
			return r.WalkDir(n, failing)
		},
		"Glob": func(n string) error { _, err := r.Glob(n); return err },
	}
}

// compound are verbs of verbs() that make several calls: the answer may be that
// of one that nobody was asked about.
var compound = map[string]bool{"Batch": true, "CopyTreeTo": true, "CopyTreeFrom": true, "CopyFS": true}

// errSawOutside is what a verb of the table answers when it was led outside.
var errSawOutside = errors.New("saw what is outside")

// aboveVictim is the directory of the name that an attack acts on, for verbs
// that work on directories.
func aboveVictim(name string) string {
	for _, leaf := range []string{"/file", "/new"} {
		name = strings.TrimSuffix(name, leaf)
	}
	return name
}

// walkVerb walks the directory that an attack acts on and reads every file.
func walkVerb(r *Root, name string, o WalkOptions) error {
	for e, err := range r.Walk(context.Background(), aboveVictim(name), o) {
		if err != nil {
			return err
		}
		if e.Name() == "secret" {
			return errSawOutside
		}
		f, err := e.Open()
		if err != nil {
			continue
		}
		data, _ := io.ReadAll(f)
		f.Close()
		if string(data) == "secret" {
			return errSawOutside
		}
	}
	return nil
}
