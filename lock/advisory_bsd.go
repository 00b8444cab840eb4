//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package lock

import "golang.org/x/sys/unix"

func callFlock(fd, how int, _ bool) error { return unix.Flock(fd, how) }
