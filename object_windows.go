package caproot

import (
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/internal/nt"
)

// positioned guards the position of h, which a call at an offset moves.
func (s *streams) positioned(h handle) *sync.Mutex {
	return &s.positions[uintptr(h)/4%uintptr(len(s.positions))]
}

// maxTransfer bounds one call: its length is 32 bits wide.
const maxTransfer = 1 << 30

func (s windowsSystem) read(h handle, p []byte) (int, error) {
	mu := s.positioned(h)
	mu.Lock()
	defer mu.Unlock()
	return transfer(windows.ReadFile, h, p, nil)
}

func (s windowsSystem) write(h handle, p []byte) (int, error) {
	mu := s.positioned(h)
	mu.Lock()
	defer mu.Unlock()
	return transfer(windows.WriteFile, h, p, nil)
}

func (s windowsSystem) readAt(h handle, p []byte, offset int64) (int, error) {
	return s.at(windows.ReadFile, h, p, offset)
}

func (s windowsSystem) writeAt(h handle, p []byte, offset int64) (int, error) {
	return s.at(windows.WriteFile, h, p, offset)
}

type transferCall = func(windows.Handle, []byte, *uint32, *windows.Overlapped) error

func transfer(call transferCall, h handle, p []byte, at *windows.Overlapped) (int, error) {
	var n uint32
	err := call(windows.Handle(h), p[:min(len(p), maxTransfer)], &n, at)
	switch err {
	case windows.ERROR_HANDLE_EOF, windows.ERROR_BROKEN_PIPE:
		err = nil
	case windows.ERROR_INVALID_FUNCTION:
		if st, serr := (windowsSystem{}).stat(h, "", false); serr == nil && st.isDir() {
			err = syscall.EISDIR
		}
	}
	return int(n), err
}

// at transfers at an offset and puts the position back.
func (s windowsSystem) at(call transferCall, h handle, p []byte, offset int64) (int, error) {
	mu := s.positioned(h)
	mu.Lock()
	defer mu.Unlock()
	before, err := windows.Seek(windows.Handle(h), 0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	n, err := transfer(call, h, p, &windows.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32)})
	if _, serr := windows.Seek(windows.Handle(h), before, io.SeekStart); err == nil {
		err = serr
	}
	return n, err
}

// seek on a directory serves only to begin its listing anew.
func (s windowsSystem) seek(h handle, offset int64, whence int) (int64, error) {
	st, err := s.stat(h, "", false)
	if err != nil {
		return 0, err
	}
	if st.isDir() {
		if offset != 0 || whence != io.SeekStart {
			return 0, syscall.EINVAL
		}
		s.restart.Store(h, true)
		return 0, nil
	}
	mu := s.positioned(h)
	mu.Lock()
	defer mu.Unlock()
	n, err := windows.Seek(windows.Handle(h), offset, whence)
	if err == windows.ERROR_NEGATIVE_SEEK {
		err = syscall.EINVAL
	}
	return n, err
}

func (s windowsSystem) close(h handle) error {
	s.restart.Delete(h)
	return windows.CloseHandle(windows.Handle(h))
}

// listings are the classes of a directory's listing. All file systems have the
// last; some answer the first as if the handle were no directory's.
var listings = [...]struct {
	class, restart uint32
	nameAt         int
}{
	{windows.FileIdBothDirectoryInfo, windows.FileIdBothDirectoryRestartInfo, nt.NameInIDBothDir},
	{windows.FileFullDirectoryInfo, windows.FileFullDirectoryRestartInfo, nt.NameInFullDir},
}

func (s windowsSystem) list(h handle, scratch []byte) ([]direntry, error) {
	_, again := s.restart.LoadAndDelete(h)
	for _, l := range listings {
		entries, err := listBy(h, scratch, l.class, l.restart, l.nameAt, again)
		if err != windows.ERROR_INVALID_PARAMETER {
			return entries, err
		}
	}
	return nil, syscall.ENOTDIR
}

func listBy(h handle, scratch []byte, class, restart uint32, nameAt int, again bool) ([]direntry, error) {
	for {
		now := class
		if again {
			now = restart
		}
		again = false
		err := windows.GetFileInformationByHandleEx(windows.Handle(h), now, &scratch[0], uint32(len(scratch)))
		if err == windows.ERROR_NO_MORE_FILES || err == windows.ERROR_FILE_NOT_FOUND {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		found, err := nt.Entries(scratch, nameAt)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue // "." and ".." alone
		}
		entries := make([]direntry, len(found))
		for i, e := range found {
			entries[i] = direntry{name: e.Name, mode: windowsMode(e.Attributes, e.Tag).Type(), typed: true}
		}
		return entries, nil
	}
}

// mountOf is the mount of a volume, 0 being none. A mounted folder is a reparse point
// and refused; what a filter of the system shows from another volume is not.
func mountOf(volume uint32) uint64 { return uint64(volume) + 1 }

// numberOf is the file number, or 0, which is like no other: a file system that
// has none of 64 bits for the file says so by all ones (MS-FSCC 2.1.9).
func numberOf(info *windows.ByHandleFileInformation) uint64 {
	n := uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
	if n == 1<<64-1 {
		return 0
	}
	return n
}

func (s windowsSystem) stat(dir handle, name string, _ bool) (status, error) {
	h := dir
	if name != "" {
		var err error
		if h, err = ntOpen(dir, here(name), 0, windows.FILE_OPEN, 0, 0, nil); err != nil {
			return status{}, err
		}
		defer s.close(h)
	}
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(h), &info); err != nil {
		return status{}, err
	}
	tag := uint32(0)
	if info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		var err error
		if tag, _, err = reparseTag(h); err != nil {
			return status{}, err
		}
	}
	return status{
		dev: uint64(info.VolumeSerialNumber), ino: numberOf(&info), mount: mountOf(info.VolumeSerialNumber),
		mode: windowsMode(info.FileAttributes, tag), nlink: uint64(info.NumberOfLinks),
		size:  int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow),
		birth: filetimeStamp(info.CreationTime), atime: filetimeStamp(info.LastAccessTime),
		mtime: filetimeStamp(info.LastWriteTime), ctime: filetimeStamp(info.LastWriteTime),
	}, nil
}

// windowsMode gives the mode that package os gives, except that a reparse
// point is never a directory to be entered.
func windowsMode(attributes, tag uint32) fs.FileMode {
	mode := fs.FileMode(0o666)
	if attributes&windows.FILE_ATTRIBUTE_READONLY != 0 {
		mode = 0o444
	}
	switch {
	case attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0, nt.KindOf(tag) == nt.Content:
	case tag == nt.TagSymlink:
		return mode | fs.ModeSymlink
	default:
		return mode | fs.ModeIrregular
	}
	if attributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0 {
		mode |= fs.ModeDir | 0o111
	}
	return mode
}

func (windowsSystem) truncate(h handle, size int64) error {
	err := windows.Ftruncate(windows.Handle(h), size)
	if err == windows.ERROR_INVALID_PARAMETER || err == windows.ERROR_ACCESS_DENIED {
		return syscall.EINVAL // as POSIX has it: too large, or not open for writing
	}
	return err
}

// basicInfo is FILE_BASIC_INFO of winbase.h; a zero field is left as it is.
type basicInfo struct {
	created, accessed, written, changed windows.Filetime
	attributes                          uint32
	_                                   uint32
}

// chmod changes the one mode bit there is: read-only.
func (s windowsSystem) chmod(h handle, mode fs.FileMode) error {
	w, err := reopen(h, windows.FILE_WRITE_ATTRIBUTES)
	if err != nil {
		return err
	}
	defer s.close(w)
	var info basicInfo
	err = windows.GetFileInformationByHandleEx(windows.Handle(w), windows.FileBasicInfo, &bytesOf(&info)[0], uint32(unsafe.Sizeof(info)))
	if err != nil {
		return err
	}
	attributes := info.attributes &^ windows.FILE_ATTRIBUTE_READONLY
	if mode&0o200 == 0 {
		attributes |= windows.FILE_ATTRIBUTE_READONLY
	}
	if attributes == info.attributes {
		return nil
	}
	if attributes == 0 {
		attributes = windows.FILE_ATTRIBUTE_NORMAL
	}
	return setBasic(w, basicInfo{attributes: attributes})
}

func setBasic(h handle, info basicInfo) error {
	return windows.SetFileInformationByHandle(windows.Handle(h), windows.FileBasicInfo, &bytesOf(&info)[0], uint32(unsafe.Sizeof(info)))
}

func (windowsSystem) chown(handle, int, int) error { return syscall.EWINDOWS }

func (s windowsSystem) chtimes(h handle, atime, mtime time.Time) error {
	w, err := reopen(h, windows.FILE_WRITE_ATTRIBUTES)
	if err != nil {
		return err
	}
	defer s.close(w)
	var info basicInfo
	if err := setFiletime(&info.accessed, atime); err != nil {
		return err
	}
	if err := setFiletime(&info.written, mtime); err != nil {
		return err
	}
	return setBasic(w, info)
}

// setFiletime leaves a zero time as it is.
func setFiletime(to *windows.Filetime, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	ticks, ok := nt.Filetime(t)
	if !ok {
		return syscall.EINVAL
	}
	*to = windows.Filetime{HighDateTime: uint32(ticks >> 32), LowDateTime: uint32(ticks)}
	return nil
}

// sync of a directory needs a handle that may add to it.
func (s windowsSystem) sync(h handle) error {
	st, err := s.stat(h, "", false)
	if err != nil {
		return err
	}
	if st.isDir() {
		if h, err = reopen(h, fileAddFile); err != nil {
			return err
		}
		defer s.close(h)
	}
	return windows.FlushFileBuffers(windows.Handle(h))
}

// fileAddFile is FILE_ADD_FILE of winnt.h, what FILE_WRITE_DATA means for a directory.
const fileAddFile = windows.FILE_WRITE_DATA

// lockOffset is far beyond any data: range locks of Windows are mandatory.
const lockOffset = 1<<63 - 2

func (windowsSystem) lock(h handle) error {
	at := windows.Overlapped{Offset: lockOffset & (1<<32 - 1), OffsetHigh: lockOffset >> 32}
	return windows.LockFileEx(windows.Handle(h), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
}

// identify: NTFS has a sequence number in the upper 16 bits of a file number,
// which counts its uses; numbers of ReFS are never used again.
func (s windowsSystem) identify(h handle) (identity.ID, error) {
	st, err := s.stat(h, "", false)
	if err != nil {
		return identity.ID{}, err
	}
	id := identity.ID{Dev: st.dev, Ino: st.ino, Type: st.mode.Type(), Birth: st.birth.sec*1e9 + st.birth.nsec, HasBirth: true}
	var info struct {
		volume    uint64
		low, high uint64
	}
	err = windows.GetFileInformationByHandleEx(windows.Handle(h), windows.FileIdInfo, &bytesOf(&info)[0], uint32(unsafe.Sizeof(info)))
	if err == nil && info.volume != 0 {
		id.Dev, id.Ino, id.InoHigh = info.volume, info.low, info.high
	}
	switch fileSystem(h) {
	case "NTFS":
		id.Gen, id.HasGen = id.Ino>>48, true
	case "ReFS":
		id.HasGen = true
	}
	return id, nil
}

func fileSystem(h handle) string {
	var name [32]uint16
	if windows.GetVolumeInformationByHandle(windows.Handle(h), nil, 0, nil, nil, nil, &name[0], uint32(len(name))) != nil {
		return ""
	}
	return windows.UTF16ToString(name[:])
}
