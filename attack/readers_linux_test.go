package attack

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/caproot/caproot"
)

// readingVerbs give what a name leads to.
func readingVerbs(r *caproot.Root) []verb {
	one := func(name string, f func(name string) (any, error)) verb {
		return verb{name, func(n, _ string) (any, error) { return f(n) }}
	}
	return append(listingVerbs(r), []verb{
		one("ReadFile", func(n string) (any, error) { return r.ReadFile(n) }),
		one("AppendFile", func(n string) (any, error) { return r.AppendFile(nil, n) }),
		one("Open", func(n string) (any, error) { f, err := r.Open(n); return drain(f, err) }),
		one("OpenFileNoFollow", func(n string) (any, error) {
			f, err := r.OpenFileNoFollow(n, os.O_RDONLY, 0)
			return drain(f, err)
		}),
		one("OpenView", func(n string) (any, error) { f, err := r.OpenView(n, os.O_RDONLY, 0); return drain(f, err) }),
		one("FS", func(n string) (any, error) { return fs.ReadFile(r.FS(), n) }),
		one("Plugin", func(n string) (any, error) { return r.Plugin().ReadFile(n) }),
		one("Stat", func(n string) (any, error) { return r.Stat(n) }),
		one("Lstat", func(n string) (any, error) { return r.Lstat(n) }),
		one("Exists", func(n string) (any, error) { return r.Exists(n) }),
		one("Lexists", func(n string) (any, error) { return r.Lexists(n) }),
		one("Readlink", func(n string) (any, error) { return r.Readlink(n) }),
		one("Target", func(n string) (any, error) { return r.Target(n) }),
		one("Receipt", func(n string) (any, error) { return r.Receipt(n, caproot.WithDigest) }),
		{"Check", func(n, o string) (any, error) {
			receipt, err := r.Receipt(o)
			if err == nil {
				receipt.Path = n
				err = r.Check(receipt)
			}
			return receipt, err
		}},
	}...)
}

// listingVerbs give the names in a directory, or all below it.
func listingVerbs(r *caproot.Root) []verb {
	ctx := context.Background()
	sub := func(r *caproot.Root, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.ReadDir(".")
	}
	return []verb{
		{"ReadDir", func(n, _ string) (any, error) { return r.ReadDir(n) }},
		{"OpenRoot", func(n, _ string) (any, error) { return sub(r.OpenRoot(n)) }},
		{"OpenParent", func(n, _ string) (any, error) { dir, _, err := r.OpenParent(n); return sub(dir, err) }},
		{"Glob", func(n, _ string) (any, error) { m, err := r.Glob(n + "/*"); return strings.Join(m, " "), err }},
		{"WalkDir", func(n, _ string) (any, error) {
			var names strings.Builder
			err := r.WalkDir(n, func(path string, e fs.DirEntry, err error) error {
				names.WriteString(path + "\n")
				return err
			})
			return names.String(), err
		}},
		{"Entries", func(n, _ string) (any, error) {
			var found []any
			for e, err := range r.Entries(ctx, n) {
				if err != nil {
					return found, err
				}
				info, _ := e.Info()
				found = append(found, e.Path(), info)
			}
			return found, nil
		}},
		{"Watch", func(n, o string) (any, error) {
			w, err := r.Watch(n, filepath.Base(o))
			if err != nil {
				return nil, err
			}
			return nil, w.Close()
		}},
		{"Walk", func(n, _ string) (any, error) {
			var found []any
			for e, err := range r.Walk(ctx, n, caproot.WalkOptions{MaxEntries: maxEntries, FollowLinks: len(n)%2 == 0}) {
				if err != nil {
					return found, err
				}
				found = append(found, e.Path())
				if f, err := e.Open(); err == nil {
					content, _ := drain(f, nil)
					found = append(found, content)
				}
			}
			return found, nil
		}},
	}
}

// maxEntries bounds a call that goes through a whole tree: workers make trees
// deeper as well as taking them away.
const maxEntries = 200

func drain(f io.ReadCloser, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return content, errors.Join(err, f.Close())
}
