//go:build linux || darwin || freebsd

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// describeMeta is all that the system tells of an object, itself if it is a link.
func describeMeta(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Mode, st.Nlink, st.Uid, st.Gid, st.Rdev, st.Size, st.Atim, st.Mtim, st.Ctim), nil
}

// specialAttempts are those on files that would block or never end.
func specialAttempts(d *demo) []attempt {
	pipe := attempt{what: "FIFO", call: "ReadFile pipe", want: "special", do: reads("pipe")}
	if err := unix.Mkfifo(filepath.Join(d.base, demoPlugin, "pipe"), 0o644); err != nil {
		pipe.untried = err.Error()
	}
	zero := attempt{what: "device", call: "ReadFile zero, which never ends", want: "special", do: reads("zero")}
	if err := mknodZero(filepath.Join(d.base, demoPlugin, "zero")); err != nil {
		zero.untried = err.Error()
	}
	return []attempt{pipe, zero}
}
