package attack

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// verb is one call with a name and a second one, and what it gave.
type verb struct {
	name string
	call func(name, other string) (any, error)
}

func verbsOf(r *caproot.Root) []verb {
	content := []byte("written inside")
	ctx := context.Background()
	changing := func(name string, f func(name, other string) error) verb {
		return verb{name, func(n, o string) (any, error) { return nil, f(n, o) }}
	}
	return []verb{
		{"ReadFile", func(n, _ string) (any, error) { return r.ReadFile(n) }},
		{"AppendFile", func(n, _ string) (any, error) { return r.AppendFile(nil, n) }},
		{"Open", func(n, _ string) (any, error) { f, err := r.Open(n); return drain(f, err) }},
		{"OpenView", func(n, _ string) (any, error) { f, err := r.OpenView(n, os.O_RDONLY, 0); return drain(f, err) }},
		{"Stat", func(n, _ string) (any, error) { return r.Stat(n) }},
		{"Lstat", func(n, _ string) (any, error) { return r.Lstat(n) }},
		{"Readlink", func(n, _ string) (any, error) { _, err := r.Readlink(n); return nil, err }},
		{"ReadDir", func(n, _ string) (any, error) { return r.ReadDir(n) }},
		{"OpenRoot", func(n, _ string) (any, error) {
			sub, err := r.OpenRoot(n)
			if err != nil {
				return nil, err
			}
			defer sub.Close()
			return sub.ReadDir(".")
		}},
		{"Receipt", func(n, _ string) (any, error) { rc, err := r.Receipt(n, caproot.WithDigest); return rc.Path, err }},
		{"Walk", func(n, _ string) (any, error) {
			var names strings.Builder
			for e, err := range r.Walk(ctx, n, caproot.WalkOptions{}) {
				if err != nil {
					return names.String(), err
				}
				names.WriteString(e.Path() + "\n")
			}
			return names.String(), nil
		}},
		{"Glob", func(n, _ string) (any, error) { m, err := r.Glob(n + "/*"); return strings.Join(m, " "), err }},
		changing("Put", func(n, _ string) error {
			_, err := r.Put(n, content, caproot.PutOptions{Durability: caproot.DurabilityNone})
			return err
		}),
		changing("PutParents", func(n, _ string) error {
			_, err := r.Put(n, content, caproot.PutOptions{Durability: caproot.DurabilityNone, Parents: true})
			return err
		}),
		changing("Append", func(n, _ string) error { _, err := r.Append(n, []byte("+"), caproot.AppendOptions{}); return err }),
		changing("WriteFile", func(n, _ string) error { return r.WriteFile(n, content, 0o644) }),
		changing("Create", func(n, _ string) error { f, err := r.Create(n); _, err = drain(f, err); return err }),
		changing("Truncate", func(n, _ string) error { return r.Truncate(n, 3) }),
		changing("Mkdir", func(n, _ string) error { return r.Mkdir(n, 0o755) }),
		changing("MkdirAll", func(n, _ string) error { return r.MkdirAll(n, 0o755) }),
		changing("Remove", func(n, _ string) error { return r.Remove(n) }),
		changing("RemoveAll", func(n, _ string) error { return r.RemoveAll(n) }),
		changing("RemoveTree", func(n, _ string) error { _, err := r.RemoveTree(ctx, n, caproot.TreeLimits{}); return err }),
		changing("Rename", func(n, o string) error { return r.Rename(n, o) }),
		changing("Move", func(n, o string) error { _, err := r.Move(n, o, caproot.MoveOptions{Replace: true}); return err }),
		changing("Link", func(n, o string) error { return r.Link(n, o) }),
		changing("Symlink", func(n, o string) error { return r.Symlink(filepath.Base(o), n) }),
		changing("Chmod", func(n, _ string) error { return r.Chmod(n, 0o755) }),
		changing("Chtimes", func(n, _ string) error { return r.Chtimes(n, time.Time{}, time.Unix(1, 0)) }),
		changing("MkdirTemp", func(n, _ string) error {
			name, err := r.MkdirTemp(n, "t*")
			if err == nil {
				err = r.Remove(name)
			}
			return err
		}),
	}
}

func drain(f io.ReadCloser, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<16))
}

// twins are what people write instead. Each must be caught.
func twins(a *arena) map[string][]verb {
	byPath := func(resolve func(string) (string, error)) []verb {
		do := func(name string, f func(path string) (any, error)) verb {
			return verb{name, func(n, _ string) (any, error) {
				p, err := resolve(n)
				if err != nil {
					return nil, err
				}
				return f(p)
			}}
		}
		return []verb{
			do("ReadFile", func(p string) (any, error) {
				fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
				if err != nil {
					return nil, err
				}
				return drain(os.NewFile(uintptr(fd), p), nil)
			}),
			do("Stat", func(p string) (any, error) { return os.Stat(p) }),
			do("ReadDir", func(p string) (any, error) { return os.ReadDir(p) }),
		}
	}
	return map[string][]verb{
		"filepath.Join": byPath(func(n string) (string, error) { return filepath.Join(a.root, n), nil }),
		"securejoin":    byPath(func(n string) (string, error) { return securejoin.SecureJoin(a.root, n) }),
		"walk without O_NOFOLLOW": {{"ReadFile", func(n, _ string) (any, error) {
			return followingWalk(a.root, n)
		}}},
	}
}

// followingWalk opens component by component relative to descriptors, and
// refuses "..", but lets the kernel follow links.
func followingWalk(root, name string) (any, error) {
	at, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." || part == "" {
			unix.Close(at)
			return nil, os.ErrInvalid
		}
		next, err := unix.Openat(at, part, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		unix.Close(at)
		if err != nil {
			return nil, err
		}
		at = next
	}
	return drain(os.NewFile(uintptr(at), name), nil)
}
