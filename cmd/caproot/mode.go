package main

import (
	"fmt"
	"io/fs"
	"strconv"
)

// parseMode reads the octal digits of chmod(1). Zero is refused: the library
// takes it for "not said".
func parseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil || n == 0 {
		return 0, usageError{fmt.Sprintf("mode %q is not an octal number from 1 to 7777", text)}
	}
	mode := fs.FileMode(n) & fs.ModePerm
	for _, b := range specialBits {
		if n&b.octal != 0 {
			mode |= b.mode
		}
	}
	return mode, nil
}

// formatMode is the opposite of parseMode.
func formatMode(mode fs.FileMode) string {
	n := uint64(mode.Perm())
	for _, b := range specialBits {
		if mode&b.mode != 0 {
			n |= b.octal
		}
	}
	return fmt.Sprintf("%04o", n)
}

var specialBits = []struct {
	octal uint64
	mode  fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

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
