//go:build unix

package caproot

import (
	"io/fs"
	"syscall"
	"testing"
)

func mkfifo(t *testing.T, path string) {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o644))
}

// umask sets the process's mask, and back.
func umask(mask int) (back func()) {
	old := syscall.Umask(mask)
	return func() { syscall.Umask(old) }
}

// kept is what the system keeps of a mode.
func kept(mode fs.FileMode, _ bool) fs.FileMode { return mode }

// errNotHere is an answer that says that there is no such call.
const errNotHere = syscall.EOPNOTSUPP

const hasFIFOs = true

// errNotForWriting is the answer for a file that is open for reading.
const errNotForWriting = syscall.EBADF
