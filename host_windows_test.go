package caproot

import (
	"io/fs"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/identity"
)

func mkfifo(t *testing.T, _ string) {
	t.Helper()
	t.Skip("no FIFOs here")
}

// umask: there is none.
func umask(int) (back func()) { return func() {} }

// changed is not to be had.
func changed(fs.FileInfo) string { return "" }

// openFDs counts the handles of the process, unless Wine counts them: it says 0.
func openFDs(*testing.T) int {
	var n uint32
	windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount").Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n)))
	return int(n)
}

// resolvers are the ways to resolve a path that there are.
func resolvers() []string { return []string{"walker"} }

// kept is what the system keeps of a mode: whether a file is read-only.
func kept(mode fs.FileMode, dir bool) fs.FileMode {
	switch {
	case dir:
		return 0o777
	case mode&0o200 == 0:
		return 0o444
	}
	return 0o666
}

// errNotHere is an answer that says that there is no such call.
const errNotHere = windows.ERROR_NOT_SUPPORTED

const hasFIFOs = false

// errNotForWriting is the answer for a file that is open for reading.
const errNotForWriting = windows.ERROR_ACCESS_DENIED

// swapped is how a known object is replaced: no call exchanges two names.
const swapped = identity.Checked
