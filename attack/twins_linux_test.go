package attack

import (
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

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

// writingTwins change what a joined path leads to.
func writingTwins(a *arena) []verb {
	return []verb{
		changing("Chmod", func(n, _ string) error { return os.Chmod(filepath.Join(a.root, n), 0o600) }),
		changing("WriteFile", func(n, _ string) error {
			fd, err := unix.Open(filepath.Join(a.root, n), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, err = unix.Write(fd, content)
			return err
		}),
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
