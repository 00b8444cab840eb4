//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/caproot/caproot"
)

// modesTell: the bits of a mode say who may do what.
const modesTell = true

// linksOf returns which file an entry is, and how many names that has.
func linksOf(_ *caproot.Root, _ caproot.Entry, info fs.FileInfo) (fileKey, uint64, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileKey{}, 0, nil
	}
	return fileKey{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink), nil
}

// unlocked reports whether nobody holds the system's lock on an open file. It
// has the lock itself for that moment.
func unlocked(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
