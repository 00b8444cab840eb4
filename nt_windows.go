package caproot

import (
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/internal/nt"
)

// Access that every open asks for: its attributes may be read, and its calls
// finish before they return.
const (
	look        = windows.FILE_READ_ATTRIBUTES | windows.SYNCHRONIZE
	synchronous = windows.FILE_SYNCHRONOUS_IO_NONALERT
	shareAll    = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
)

// Statuses of ntstatus.h that x/sys does not name or that Win32 blurs.
const (
	statusNameInvalid       = windows.NTStatus(0xC0000033)
	statusInvalidInfoClass  = windows.NTStatus(0xC0000003)
	statusNotImplemented    = windows.NTStatus(0xC0000002)
	statusInvalidParameter  = windows.NTStatus(0xC000000D)
	statusNotSupported      = windows.NTStatus(0xC00000BB)
	statusInvalidRequest    = windows.NTStatus(0xC0000010)
	statusSharingViolation  = windows.NTStatus(0xC0000043)
	statusDeletePending     = windows.NTStatus(0xC0000056)
	statusFileIsADirectory  = windows.NTStatus(0xC00000BA)
	statusNotADirectory     = windows.NTStatus(0xC0000103)
	statusAccessDenied      = windows.NTStatus(0xC0000022)
	statusCannotDelete      = windows.NTStatus(0xC0000121)
	statusReparseEncounter  = windows.NTStatus(0xC000050B)
	statusNotSameDevice     = windows.NTStatus(0xC00000D4)
	statusDirectoryNotEmpty = windows.NTStatus(0xC0000101)
	statusDiskFull          = windows.NTStatus(0xC000007F)
)

// ntError turns a status into the errno that says the same on every system;
// Win32 makes "access denied" of several of them.
func ntError(err error) error {
	status, ok := err.(windows.NTStatus)
	if !ok {
		return err
	}
	switch status {
	case statusFileIsADirectory:
		return syscall.EISDIR
	case statusNotADirectory:
		return syscall.ENOTDIR
	case statusReparseEncounter:
		return syscall.ELOOP
	case statusNotSameDevice:
		return syscall.EXDEV
	case statusDirectoryNotEmpty:
		return syscall.ENOTEMPTY
	case statusDiskFull:
		return syscall.ENOSPC
	case statusInvalidParameter:
		return syscall.EINVAL
	case statusDeletePending:
		return windows.ERROR_DELETE_PENDING
	}
	return status.Errno()
}

// lacking is true for the answers of a system or file system that does not
// have an information class. A denial or a violation is not among them.
func lacking(err error) bool {
	switch err {
	case statusInvalidInfoClass, statusNotImplemented, statusInvalidParameter, statusNotSupported, statusInvalidRequest:
		return true
	}
	return false
}

// patience bounds the retries of a call that another process's handle is in
// the way of: 255 ms in all. Virus scanners and indexers hold files that long.
const patience = 8

// patiently repeats a call while the name it acts on is being torn down or
// held, which are the first two statuses and what more the caller knows.
func patiently(call func() error, more ...windows.NTStatus) error {
	for try := 0; ; try++ {
		err := call()
		status, _ := err.(windows.NTStatus)
		busy := status == statusSharingViolation || status == statusDeletePending || slices.Contains(more, status)
		if !busy || try == patience {
			return err
		}
		time.Sleep(time.Millisecond << try)
	}
}

// failed leaves out what is a success with something to say. The calls take it
// for an error, and a handle that came with it would be lost.
func failed(err error) error {
	if status, ok := err.(windows.NTStatus); ok && int32(status) >= 0 {
		return nil
	}
	return err
}

// ntOpen opens or makes one component relative to a directory; "" opens the
// directory's own object anew. A reparse point is opened itself.
func ntOpen(dir handle, name string, access, disposition, options, attributes uint32, sd *windows.SECURITY_DESCRIPTOR) (handle, error) {
	return ntCreate(dir, name, access, disposition, options|windows.FILE_OPEN_REPARSE_POINT, attributes, sd)
}

// ntCreate is ntOpen, but a reparse point is left to the driver that knows its tag.
// The system itself follows none: where one would lead elsewhere, the call fails.
func ntCreate(dir handle, name string, access, disposition, options, attributes uint32, sd *windows.SECURITY_DESCRIPTOR) (handle, error) {
	if name != "" && !nt.IsComponent(name) {
		return noHandle, ntError(statusNameInvalid)
	}
	object, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return noHandle, err
	}
	oa := windows.OBJECT_ATTRIBUTES{
		RootDirectory: windows.Handle(dir), ObjectName: object,
		Attributes: windows.OBJ_CASE_INSENSITIVE | windows.OBJ_DONT_REPARSE, SecurityDescriptor: sd,
	}
	oa.Length = uint32(unsafe.Sizeof(oa))
	var h windows.Handle
	err = patiently(func() error {
		var iosb windows.IO_STATUS_BLOCK
		return failed(windows.NtCreateFile(&h, access|look, &oa, &iosb, nil, attributes, shareAll, disposition,
			options|synchronous|windows.FILE_OPEN_FOR_BACKUP_INTENT, 0, 0))
	})
	runtime.KeepAlive(sd)
	if err != nil {
		return noHandle, ntError(err)
	}
	return handle(h), nil
}

// reopen opens the object of h anew for other access: what h was opened for
// does not limit it, the object's own protection does.
func reopen(h handle, access uint32) (handle, error) {
	return ntOpen(h, "", access, windows.FILE_OPEN, 0, 0, nil)
}

// ntSet sets one information class, and leaves the status as it is.
func ntSet(h handle, class uint32, info []byte, more ...windows.NTStatus) error {
	return patiently(func() error {
		var iosb windows.IO_STATUS_BLOCK
		return failed(windows.NtSetInformationFile(windows.Handle(h), &iosb, &info[0], uint32(len(info)), class))
	}, more...)
}

// newName names a place in a directory, for a rename or a link.
func newName(flags uint32, dir handle, name string) ([]byte, error) {
	if !nt.IsComponent(name) {
		return nil, ntError(statusNameInvalid)
	}
	return nt.NewName(flags, uint64(dir), name, int(unsafe.Sizeof(dir)))
}

func filetimeStamp(t windows.Filetime) stamp {
	sec, nsec := nt.Unix(int64(t.HighDateTime)<<32 | int64(t.LowDateTime))
	return stamp{sec, nsec}
}
