package lock

import (
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/windows"
)

const openNonBlocking = 0

// freesName: the name of a removed file is taken while anybody has the file open.
const freesName = false

// lockOffset is where the locked byte lies. Range locks of Windows are
// mandatory, so it is far beyond any record, which others must be able to read.
const lockOffset = 1 << 62

func overlapped() *windows.Overlapped {
	return &windows.Overlapped{Offset: lockOffset & 0xffffffff, OffsetHigh: lockOffset >> 32}
}

// flock takes an exclusive lock on a byte of the open file. Without wait it
// answers errLocked when another open file has it.
func flock(f *os.File, wait bool) error { return rangeLock(f, false, wait) }

func rangeLock(f *os.File, shared, wait bool) error {
	var flags uint32
	if !shared {
		flags = windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	handle, region := windows.Handle(f.Fd()), overlapped()
	err := windows.LockFileEx(handle, flags, 0, 1, 0, region)
	if err == windows.ERROR_IO_PENDING {
		// A handle for asynchronous work: the system waits, and we for it.
		var n uint32
		err = windows.GetOverlappedResult(handle, region, &n, true)
	}
	runtime.KeepAlive(f)
	if err == windows.ERROR_LOCK_VIOLATION {
		return errLocked
	}
	return err
}

func funlock(f *os.File) error {
	err := windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, overlapped())
	runtime.KeepAlive(f)
	return err
}

// relock asks for the lock that the open file should have. Here the system
// refuses it to the one that has it too; nobody else can have got it as long as
// it was not unlocked.
func relock(f *os.File) error {
	err := flock(f, false)
	if err == errLocked {
		return nil
	}
	return err
}

// look describes the open file.
func look(f *os.File) (object, error) {
	var d windows.ByHandleFileInformation
	err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &d)
	runtime.KeepAlive(f)
	if err != nil {
		return object{}, os.NewSyscallError("GetFileInformationByHandle", err)
	}
	directory := d.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0
	return object{
		id:    recordID{uint64(d.VolumeSerialNumber), uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow)},
		nlink: uint64(d.NumberOfLinks), size: int64(d.FileSizeHigh)<<32 | int64(d.FileSizeLow),
		regular: !directory, directory: directory, mtime: time.Unix(0, d.LastWriteTime.Nanoseconds()),
	}, nil
}

// touch sets the time of modification through the handle.
func touch(f *os.File, now time.Time) error {
	ft := windows.NsecToFiletime(now.UnixNano())
	err := windows.SetFileTime(windows.Handle(f.Fd()), nil, nil, &ft)
	runtime.KeepAlive(f)
	return os.NewSyscallError("SetFileTime", err)
}

// tornDown is true for the answers that a name gives while it is being removed.
func tornDown(err error) bool {
	return errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
		errors.Is(err, windows.ERROR_DELETE_PENDING)
}

func (o *object) foreign() bool { return false }
