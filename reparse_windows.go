package caproot

import (
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// reparseHeader begins REPARSE_DATA_BUFFER of ntifs.h; offsets and lengths are
// in bytes, from the end of the structure for its kind.
type reparseHeader struct {
	tag                         uint32
	length, _                   uint16
	substituteAt, substituteLen uint16
	printAt, printLen           uint16
}

const (
	symlinkFlagsSize    = 4
	symlinkFlagRelative = 1
)

func (windowsSystem) magic(handle, string) bool { return false }

// readlink gives the target as it is stored. That of a junction, and of a link
// to a drive or share, is absolute.
func (s windowsSystem) readlink(dir handle, name string) (string, error) {
	h, err := ntOpen(dir, name, 0, windows.FILE_OPEN, 0, 0, nil)
	if err != nil {
		return "", err
	}
	defer s.close(h)
	buf := make([]byte, windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	var n uint32
	err = windows.DeviceIoControl(windows.Handle(h), windows.FSCTL_GET_REPARSE_POINT, nil, 0, &buf[0], uint32(len(buf)), &n, nil)
	if err != nil {
		return "", err
	}
	return linkTarget(buf[:n])
}

// linkTarget takes the target out of a reparse buffer, which a hostile file
// system may have filled in.
func linkTarget(buf []byte) (string, error) {
	start := int(unsafe.Sizeof(reparseHeader{}))
	if len(buf) < start+symlinkFlagsSize {
		return "", windows.ERROR_INVALID_REPARSE_DATA
	}
	header := (*reparseHeader)(unsafe.Pointer(&buf[0]))
	switch header.tag {
	case windows.IO_REPARSE_TAG_SYMLINK:
		start += symlinkFlagsSize
	case windows.IO_REPARSE_TAG_MOUNT_POINT:
	default:
		return "", windows.ERROR_NOT_A_REPARSE_POINT
	}
	from := start + int(header.substituteAt)
	to := from + int(header.substituteLen)
	if to > len(buf) || from%2 != 0 || (to-from)%2 != 0 || to == from {
		return "", windows.ERROR_INVALID_REPARSE_DATA
	}
	text := windows.UTF16ToString(unsafe.Slice((*uint16)(unsafe.Pointer(&buf[from])), (to-from)/2))
	// The native prefix of an absolute target.
	if rest, ok := strings.CutPrefix(text, `\??\`); ok {
		if share, ok := strings.CutPrefix(rest, `UNC\`); ok {
			return `\\` + share, nil
		}
		return rest, nil
	}
	return text, nil
}

// symlink makes an empty object and turns it into a link. Windows keeps links
// to directories apart: the target is one if it is there as one, seen from dir
// and downwards; for every other target the link is one to a file.
func (s windowsSystem) symlink(target string, dir handle, name string) error {
	options, attributes := uint32(windows.FILE_NON_DIRECTORY_FILE), uint32(windows.FILE_ATTRIBUTE_NORMAL)
	if s.leadsToDir(dir, target) {
		options = windows.FILE_DIRECTORY_FILE
	}
	data, err := linkData(target)
	if err != nil {
		return err
	}
	h, err := ntOpen(dir, name, windows.FILE_WRITE_ATTRIBUTES|windows.DELETE, windows.FILE_CREATE, options, attributes, nil)
	if err != nil {
		return err
	}
	defer s.close(h)
	var n uint32
	err = windows.DeviceIoControl(windows.Handle(h), windows.FSCTL_SET_REPARSE_POINT, &data[0], uint32(len(data)), nil, 0, &n, nil)
	if err == nil {
		// Wine answers that it did, and does nothing.
		var tag uint32
		if tag, err = reparseTag(h); err == nil && tag == 0 {
			err = windows.ERROR_NOT_SUPPORTED
		}
	}
	if err != nil {
		s.dispose(h, &status{mode: 0o666})
	}
	return err
}

func (s windowsSystem) leadsToDir(dir handle, target string) bool {
	at, own := dir, false
	defer func() {
		if own {
			s.close(at)
		}
	}()
	for _, name := range strings.FieldsFunc(target, func(r rune) bool { return r == '\\' || r == '/' }) {
		if name == ".." || strings.ContainsRune(name, ':') {
			return false
		}
		next, err := s.openDir(at, name)
		if own {
			s.close(at)
		}
		if at, own = next, err == nil; err != nil {
			return false
		}
	}
	return own
}

func linkData(target string) ([]byte, error) {
	target = filepath.FromSlash(target)
	substitute, flags := target, uint32(symlinkFlagRelative)
	if filepath.IsAbs(target) {
		flags = 0
		if share, ok := strings.CutPrefix(target, `\\`); ok {
			substitute = `\??\UNC\` + share
		} else {
			substitute = `\??\` + target
		}
	}
	wide, err := syscall.UTF16FromString(substitute)
	if err != nil {
		return nil, err
	}
	shown, err := syscall.UTF16FromString(target)
	if err != nil {
		return nil, err
	}
	wide, shown = wide[:len(wide)-1], shown[:len(shown)-1]
	start := int(unsafe.Sizeof(reparseHeader{})) + symlinkFlagsSize
	buf := make([]byte, start+2*(len(wide)+len(shown)))
	if len(buf) > windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE {
		return nil, syscall.ENAMETOOLONG
	}
	const bodyStart = 8 // after tag, length and a reserved field
	*(*reparseHeader)(unsafe.Pointer(&buf[0])) = reparseHeader{
		tag: windows.IO_REPARSE_TAG_SYMLINK, length: uint16(len(buf) - bodyStart),
		substituteLen: uint16(2 * len(wide)), printAt: uint16(2 * len(wide)), printLen: uint16(2 * len(shown)),
	}
	*(*uint32)(unsafe.Pointer(&buf[start-symlinkFlagsSize])) = flags
	text := unsafe.Slice((*uint16)(unsafe.Pointer(&buf[start])), len(wide)+len(shown))
	copy(text, wide)
	copy(text[len(wide):], shown)
	return buf, nil
}
