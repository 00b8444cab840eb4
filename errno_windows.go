package caproot

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/internal/nt"
)

// maybeLink is true for the answers that an open which follows no link gives
// when there is one.
func maybeLink(err error) bool { return err == syscall.ENOTDIR || err == syscall.ELOOP }

// notALink is readlink's answer for everything else.
func notALink(err error) bool {
	return err == windows.ERROR_NOT_A_REPARSE_POINT || err == nt.ErrNotLink
}

// maybeSpecial: a file system has neither FIFOs nor devices here.
func maybeSpecial(error) bool { return false }

// notHere is true when the file system or system lacks the call itself.
func notHere(err error) bool {
	return err == windows.ERROR_NOT_SUPPORTED || err == windows.ERROR_INVALID_FUNCTION || err == windows.ERROR_CALL_NOT_IMPLEMENTED
}

// noFlag is true when a way to rename is not supported here.
func noFlag(err error) bool { return notHere(err) }

// noLink is true when a second name of a file cannot be had here.
func noLink(err error) bool { return notHere(err) || err == windows.ERROR_ACCESS_DENIED }

// noDirSync is true when a directory cannot be flushed here: no such
// operation, or no permission to add to it.
func noDirSync(err error) bool {
	return notHere(err) || err == windows.ERROR_ACCESS_DENIED || err == windows.ERROR_INVALID_HANDLE
}

// notEmpty is the answer to the removal of a directory with something in it.
func notEmpty(err error) bool { return err == syscall.ENOTEMPTY || err == windows.ERROR_DIR_NOT_EMPTY }

// numbers are what SameFile compares. Those of package os are not to be had.
func numbers(i fs.FileInfo) (n [2]uint64, ok bool) {
	if i, own := i.(*fileInfo); own {
		return [2]uint64{i.st.dev, i.st.ino}, true
	}
	return n, false
}

// sys is what FileInfo.Sys gives: the type that package os gives.
func (s *status) sys() any {
	attributes := uint32(0)
	if s.mode&0o200 == 0 {
		attributes |= syscall.FILE_ATTRIBUTE_READONLY
	}
	if s.isDir() {
		attributes |= syscall.FILE_ATTRIBUTE_DIRECTORY
	}
	if s.isLink() || s.isSpecial() {
		attributes |= syscall.FILE_ATTRIBUTE_REPARSE_POINT
	}
	if attributes == 0 {
		attributes = syscall.FILE_ATTRIBUTE_NORMAL
	}
	return &syscall.Win32FileAttributeData{
		FileAttributes: attributes, CreationTime: s.birth.filetime(), LastAccessTime: s.atime.filetime(), LastWriteTime: s.mtime.filetime(),
		FileSizeHigh: uint32(s.size >> 32), FileSizeLow: uint32(s.size),
	}
}

func (t stamp) filetime() syscall.Filetime {
	ticks, _ := nt.Filetime(t.time())
	return syscall.Filetime{HighDateTime: uint32(ticks >> 32), LowDateTime: uint32(ticks)}
}
