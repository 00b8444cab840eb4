package caproot

import (
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
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

// ntOpen opens or makes one component relative to a directory; "" opens the
// directory's own object anew. A reparse point is opened itself.
func ntOpen(dir handle, name string, access, disposition, options, attributes uint32, sd *windows.SECURITY_DESCRIPTOR) (handle, error) {
	object, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return noHandle, err
	}
	oa := windows.OBJECT_ATTRIBUTES{
		RootDirectory: windows.Handle(dir), ObjectName: object, Attributes: windows.OBJ_CASE_INSENSITIVE, SecurityDescriptor: sd,
	}
	oa.Length = uint32(unsafe.Sizeof(oa))
	var h windows.Handle
	err = patiently(func() error {
		var iosb windows.IO_STATUS_BLOCK
		return windows.NtCreateFile(&h, access|look, &oa, &iosb, nil, attributes, shareAll, disposition,
			options|synchronous|windows.FILE_OPEN_REPARSE_POINT|windows.FILE_OPEN_FOR_BACKUP_INTENT, 0, 0)
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
		return windows.NtSetInformationFile(windows.Handle(h), &iosb, &info[0], uint32(len(info)), class)
	}, more...)
}

// newName is FILE_RENAME_INFORMATION and FILE_LINK_INFORMATION: flags, the
// directory, and a name in it.
func newName(flags uint32, dir handle, name string) ([]byte, error) {
	text, err := windows.UTF16FromString(name)
	if err != nil {
		return nil, err
	}
	type header struct {
		flags  uint32
		dir    handle
		length uint32
	}
	text = text[:len(text)-1]
	start := int(unsafe.Offsetof(header{}.length)) + 4
	buf := make([]byte, max(start+2*len(text), int(unsafe.Sizeof(header{}))))
	*(*header)(unsafe.Pointer(&buf[0])) = header{flags, dir, uint32(2 * len(text))}
	copy(unsafe.Slice((*uint16)(unsafe.Pointer(&buf[start])), len(text)), text)
	return buf, nil
}

// stamp of a FILETIME: 100 ns since 1601.
func filetimeStamp(t windows.Filetime) stamp {
	ns := int64(t.HighDateTime)<<32 | int64(t.LowDateTime)
	const to1970 = 11644473600
	return stamp{ns/1e7 - to1970, ns % 1e7 * 100}
}
