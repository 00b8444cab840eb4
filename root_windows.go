package caproot

import (
	"io/fs"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/internal/nt"
)

// handle is a kernel handle.
type handle windows.Handle

const noHandle = handle(windows.InvalidHandle)

const errNotDir = syscall.ENOTDIR

// windowsSystem calls the native interface, which opens relative to a
// directory's handle and never parses a path.
type windowsSystem struct{ *streams }

// streams keeps what the kernel does not keep for a handle as Unix does.
type streams struct {
	// positions guards the file position of a handle while a call at an offset
	// moves it; handles share the locks.
	positions [64]sync.Mutex
	// restart has the directory handles whose listing begins anew.
	restart sync.Map
}

var theStreams streams

func hostSystem() system { return windowsSystem{&theStreams} }

// kernelResolves: no call resolves a path inside a directory.
func kernelResolves() bool { return false }

func openPath(path string) (handle, error) {
	path, err := nt.RootPath(path, syscall.FullPath)
	if err != nil {
		return noHandle, err
	}
	wide, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return noHandle, err
	}
	h, err := windows.CreateFile(wide, windows.FILE_LIST_DIRECTORY|windows.FILE_TRAVERSE|look, shareAll, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	return handle(h), err
}

func dupFile(f *os.File) (h handle, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return noHandle, err
	}
	if raw.Control(func(fd uintptr) { h, err = windowsSystem{}.dup(handle(fd)) }) != nil {
		// The only failure of its own is a closed file, by an error that os hides.
		return noHandle, fs.ErrClosed
	}
	return h, err
}

func newFile(h handle, name string) *os.File { return os.NewFile(uintptr(h), name) }

// exportDir: the entries that such a file lists carry their own description.
func exportDir(h handle, display string) (*os.File, error) { return newFile(h, display), nil }

// setBlocking: no open was made otherwise.
func setBlocking(handle, openHow) error { return nil }

func systemFlags(flag int) (openHow, int) { return 0, flag &^ syscall.O_CLOEXEC }

func (s windowsSystem) openDir(dir handle, name string) (handle, error) {
	h, err := ntOpen(dir, here(name), windows.FILE_TRAVERSE, windows.FILE_OPEN, windows.FILE_DIRECTORY_FILE, 0, nil)
	if err != nil {
		return noHandle, err
	}
	return s.settle(h, windows.FILE_TRAVERSE, windows.FILE_DIRECTORY_FILE)
}

// here is the name that opens the directory itself.
func here(name string) string {
	if name == "." {
		return ""
	}
	return name
}

// settle decides on what was just opened, and closes what stands for something
// else: a link is ELOOP, for the walker to follow; content that a driver keeps is
// opened through that driver; anything else of the kind is refused.
func (s windowsSystem) settle(h handle, access, options uint32) (handle, error) {
	tag, is, err := reparseTag(h)
	if err == nil && !is {
		return h, nil
	}
	content := noHandle
	if err == nil {
		switch nt.KindOf(tag) {
		case nt.Link:
			err = syscall.ELOOP
		case nt.Content:
			content, err = s.content(h, access, options)
		default:
			err = ErrSpecial
		}
	}
	s.close(h)
	return content, err
}

// content opens the object of h, which has it pinned, for what its driver keeps.
func (s windowsSystem) content(h handle, access, options uint32) (handle, error) {
	c, err := ntCreate(h, "", access, windows.FILE_OPEN, options, 0, nil)
	if err != nil {
		return noHandle, err
	}
	mine, err := s.stat(h, "", false)
	if err == nil {
		var got status
		if got, err = s.stat(c, "", false); err == nil && !got.sameNumbers(&mine) {
			err = ErrSpecial
		}
	}
	if err != nil {
		s.close(c)
		return noHandle, err
	}
	return c, nil
}

// reparseTag is the tag of a reparse point. Only one is asked for it: FAT does not
// know the question.
func reparseTag(h handle) (tag uint32, is bool, err error) {
	var basic basicInfo
	err = windows.GetFileInformationByHandleEx(windows.Handle(h), windows.FileBasicInfo, &bytesOf(&basic)[0], uint32(unsafe.Sizeof(basic)))
	if err != nil || basic.attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		return 0, false, err
	}
	var info struct{ attributes, tag uint32 }
	err = windows.GetFileInformationByHandleEx(windows.Handle(h), windows.FileAttributeTagInfo, &bytesOf(&info)[0], uint32(unsafe.Sizeof(info)))
	return info.tag, true, err
}

func (s windowsSystem) open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	access, options := openAccess(how)
	disposition := uint32(windows.FILE_OPEN)
	attributes := uint32(windows.FILE_ATTRIBUTE_NORMAL)
	var sd *windows.SECURITY_DESCRIPTOR
	if how&creating != 0 {
		if disposition = windows.FILE_OPEN_IF; how&exclusive != 0 {
			disposition = windows.FILE_CREATE
		}
		if perm&0o200 == 0 {
			attributes = windows.FILE_ATTRIBUTE_READONLY
		}
		var err error
		if sd, err = protection(perm); err != nil {
			return noHandle, err
		}
	}
	h, err := ntOpen(dir, here(name), access, disposition, options, attributes, sd)
	if err != nil || how&pathOnly != 0 {
		return h, err
	}
	if h, err = s.settle(h, access, options); err != nil || how&truncating == 0 {
		return h, err
	}
	// Not by a disposition: that would turn a link into a file.
	if err := windows.Ftruncate(windows.Handle(h), 0); err != nil {
		windows.CloseHandle(windows.Handle(h))
		return noHandle, err
	}
	return h, nil
}

func openAccess(how openHow) (access, options uint32) {
	switch {
	case how&pathOnly != 0:
	case how&(forRead|forWrite) == forRead|forWrite:
		access = windows.FILE_GENERIC_READ | windows.FILE_GENERIC_WRITE
	case how&forWrite != 0:
		access = windows.FILE_GENERIC_WRITE
	default:
		access = windows.FILE_GENERIC_READ
	}
	if how&forWrite != 0 {
		options |= windows.FILE_NON_DIRECTORY_FILE
	}
	if how&appending != 0 && how&truncating == 0 {
		access &^= windows.FILE_WRITE_DATA
	}
	if how&directoryOnly != 0 {
		options |= windows.FILE_DIRECTORY_FILE
	}
	if how&synced != 0 {
		options |= windows.FILE_WRITE_THROUGH
	}
	return access, options
}

func (windowsSystem) mkdir(dir handle, name string, perm fs.FileMode) error {
	sd, err := protection(perm)
	if err != nil {
		return err
	}
	h, err := ntOpen(dir, name, 0, windows.FILE_CREATE, windows.FILE_DIRECTORY_FILE, windows.FILE_ATTRIBUTE_NORMAL, sd)
	if err != nil {
		return err
	}
	return windows.CloseHandle(windows.Handle(h))
}

// remove deletes through a handle of the very object, which may be a link.
func (s windowsSystem) remove(dir handle, name string, isDir bool) error {
	options := uint32(0)
	if isDir {
		options = windows.FILE_DIRECTORY_FILE
	}
	h, err := ntOpen(dir, name, windows.DELETE, windows.FILE_OPEN, options, 0, nil)
	if err != nil {
		return err
	}
	defer s.close(h)
	st, err := s.stat(h, "", false)
	switch {
	case err != nil:
		return err
	case isDir && !st.isDir():
		return syscall.ENOTDIR
	case !isDir && st.isDir():
		return syscall.EISDIR
	}
	return s.dispose(h, &st)
}

// nameless counts a file that is marked for deletion: without the rules of POSIX
// its name stays until the last handle is closed.
func (windowsSystem) nameless(file handle) bool {
	var info struct {
		allocated, size int64
		links           uint32
		deleting, isDir bool
	}
	err := windows.GetFileInformationByHandleEx(windows.Handle(file), windows.FileStandardInfo, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err == nil && (info.links == 0 || info.links == 1 && info.deleting)
}

// dispose marks the object for deletion: at once with the rules of POSIX
// (Windows 10 1709), else when the last handle is closed.
func (s windowsSystem) dispose(h handle, st *status) error {
	flags := uint32(windows.FILE_DISPOSITION_DELETE | windows.FILE_DISPOSITION_POSIX_SEMANTICS | windows.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
	err := ntSet(h, windows.FileDispositionInformationEx, bytesOf(&flags))
	if lacking(err) {
		err = ntSet(h, windows.FileDispositionInformation, []byte{1})
		if err == statusCannotDelete && st.mode&0o200 == 0 {
			if err := s.chmod(h, st.mode|0o200); err != nil {
				return err
			}
			if err = ntSet(h, windows.FileDispositionInformation, []byte{1}); err != nil {
				s.chmod(h, st.mode)
			}
		}
	}
	return ntError(err)
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// fileRenameInformationEx is of Windows 10 1607 (ntifs.h).
const fileRenameInformationEx = 65

func (s windowsSystem) rename(from handle, name string, to handle, newTo string, how renameHow) error {
	if how == exchanging {
		return windows.ERROR_NOT_SUPPORTED
	}
	h, err := ntOpen(from, name, windows.DELETE, windows.FILE_OPEN, 0, 0, nil)
	if err != nil {
		return err
	}
	defer s.close(h)
	if how == replacing {
		if err := s.admitReplace(h, to, newTo); err != nil {
			return err
		}
	}
	return ntError(renameTo(h, to, newTo, how))
}

// renameTo asks for the rules of POSIX, by which an open file and (since Windows 10
// 1809) a read-only one can be replaced, and for less where those are not known.
func renameTo(h, to handle, newTo string, how renameHow) (err error) {
	flags := []uint32{windows.FILE_RENAME_POSIX_SEMANTICS}
	plain := uint32(0)
	if how == replacing {
		const posix = windows.FILE_RENAME_POSIX_SEMANTICS | windows.FILE_RENAME_REPLACE_IF_EXISTS
		flags = []uint32{posix | windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE, posix}
		plain = windows.FILE_RENAME_REPLACE_IF_EXISTS
	}
	for _, f := range flags {
		info, err := newName(f, to, newTo)
		if err != nil {
			return err
		}
		if err = ntSet(h, fileRenameInformationEx, info); !lacking(err) {
			return err
		}
	}
	info, err := newName(plain, to, newTo)
	if err != nil {
		return err
	}
	// Without those rules an open target denies access.
	return ntSet(h, windows.FileRenameInformation, info, statusAccessDenied)
}

// admitReplace refuses to replace a file by a directory, as POSIX does.
func (s windowsSystem) admitReplace(h, to handle, newTo string) error {
	from, err := s.stat(h, "", false)
	if err != nil || !from.isDir() {
		return err
	}
	if over, err := s.stat(to, newTo, false); err == nil && !over.isDir() {
		return syscall.ENOTDIR
	}
	return nil
}

// fileLinkInformation is FileLinkInformation of ntifs.h.
const fileLinkInformation = 11

func (s windowsSystem) link(from handle, name string, to handle, newTo string) error {
	h, err := ntOpen(from, name, windows.FILE_WRITE_ATTRIBUTES, windows.FILE_OPEN, 0, 0, nil)
	if err != nil {
		return err
	}
	defer s.close(h)
	info, err := newName(0, to, newTo)
	if err != nil {
		return err
	}
	return ntError(ntSet(h, fileLinkInformation, info))
}

func (windowsSystem) unnamed(handle, fs.FileMode) (handle, error) {
	return noHandle, windows.ERROR_NOT_SUPPORTED
}

func (windowsSystem) publish(handle, handle, string) error { return windows.ERROR_NOT_SUPPORTED }

func (windowsSystem) dup(h handle) (handle, error) {
	var d windows.Handle
	self := windows.CurrentProcess()
	err := windows.DuplicateHandle(self, windows.Handle(h), self, &d, 0, false, windows.DUPLICATE_SAME_ACCESS)
	return handle(d), err
}
