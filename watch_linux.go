package caproot

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchedEvents are those after which a name leads to something else, or what it
// leads to has new content.
const watchedEvents = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_CLOSE_WRITE

func (linuxSystem) watch(dir handle) (io.ReadCloser, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		if _, err = unix.InotifyAddWatch(fd, procPath(dir), watchedEvents|unix.IN_ONLYDIR); err != nil {
			unix.Close(fd)
		}
	}
	switch err {
	case nil:
		// The file is non-blocking, so the runtime polls it and no thread waits.
		return os.NewFile(uintptr(fd), "inotify"), nil
	case syscall.ENOENT, syscall.ENOSPC, syscall.EMFILE, syscall.ENOSYS:
		// No /proc, or a limit of the user's.
		return nil, &detail{ErrUnsupported, err.Error(), nil}
	}
	return nil, err
}

func (linuxSystem) names(buf []byte) (names []string, all bool) {
	for len(buf) >= unix.SizeofInotifyEvent {
		// SAFETY: the kernel writes whole events, aligned, and the length is checked.
		e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		end := unix.SizeofInotifyEvent + int(e.Len)
		if e.Mask&unix.IN_Q_OVERFLOW != 0 || end > len(buf) {
			return nil, true
		}
		names = append(names, unix.ByteSliceToString(buf[unix.SizeofInotifyEvent:end]))
		buf = buf[end:]
	}
	return names, false
}
