package caproot

import (
	"strings"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/internal/nt"
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
	return nt.LinkTarget(buf[:min(int(n), len(buf))])
}

// symlink makes an empty object and turns it into a link. Windows keeps links
// to directories apart: the target is one if it is there as one, seen from dir
// and downwards; for every other target the link is one to a file.
func (s windowsSystem) symlink(target string, dir handle, name string) error {
	options, attributes := uint32(windows.FILE_NON_DIRECTORY_FILE), uint32(windows.FILE_ATTRIBUTE_NORMAL)
	if s.leadsToDir(dir, target) {
		options = windows.FILE_DIRECTORY_FILE
	}
	data, err := nt.LinkData(target)
	if err != nil {
		return &detail{ErrName, err.Error(), err}
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
		var is bool
		if _, is, err = reparseTag(h); err == nil && !is {
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
