package lock

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/windows"
)

const bootIDFile = ""

// isLocal accepts the file systems whose locks are dropped with the process, on
// a drive of this machine: a server answers for others.
func isLocal(f *os.File) bool {
	h := windows.Handle(f.Fd())
	defer runtime.KeepAlive(f)
	var path [windows.MAX_LONG_PATH]uint16
	n, err := windows.GetFinalPathNameByHandle(h, &path[0], uint32(len(path)), 0)
	if err != nil || n > uint32(len(path)) {
		return false
	}
	// \\?\C:\... is local, \\?\UNC\server\... is not.
	name, ok := strings.CutPrefix(windows.UTF16ToString(path[:n]), `\\?\`)
	if !ok || len(name) < 3 || name[1:3] != `:\` {
		return false
	}
	drive, err := windows.UTF16PtrFromString(name[:3])
	if err != nil || windows.GetDriveType(drive) != windows.DRIVE_FIXED {
		return false
	}
	var kind [windows.MAX_PATH + 1]uint16
	err = windows.GetVolumeInformationByHandle(h, nil, 0, nil, nil, nil, &kind[0], uint32(len(kind)))
	if err != nil {
		return false
	}
	// ReFS has 128-bit numbers, of which a record could name only a part.
	return windows.UTF16ToString(kind[:]) == "NTFS"
}

// viewOf tells whether the lock of a file is proof; there is one view of it.
func viewOf(f *os.File) (view byte, proof bool) { return 0, isLocal(f) }
