package lock

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch tells of names that go, come or change in the directory of a record.
type watch struct {
	inotify *os.File
	changed chan struct{}
}

// newWatch returns a watch that does not work where the system's limit of
// instances is reached, or /proc is not there to name the directory by.
func newWatch(p *place) *watch {
	dir, err := p.dir.Open(".")
	if err != nil {
		return &watch{}
	}
	defer dir.Close()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return &watch{}
	}
	const events = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_CLOSE_WRITE
	_, err = unix.InotifyAddWatch(fd, "/proc/self/fd/"+strconv.Itoa(int(dir.Fd())), events|unix.IN_ONLYDIR)
	if err != nil {
		unix.Close(fd)
		return &watch{}
	}
	// The file is non-blocking, so the runtime polls it and no thread waits.
	w := &watch{os.NewFile(uintptr(fd), "inotify"), make(chan struct{}, 1)}
	go w.read(p.leaf, p.guard)
	return w
}

func (w *watch) works() bool { return w.inotify != nil }

func (w *watch) events() <-chan struct{} { return w.changed }

func (w *watch) close() {
	if w != nil && w.inotify != nil {
		w.inotify.Close()
	}
}

func (w *watch) read(names ...string) {
	buf := make([]byte, 16<<10)
	for {
		n, err := w.inotify.Read(buf)
		if err != nil {
			return
		}
		if !mentions(buf[:n], names) {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// mentions reports whether an event is of one of the names. Events that were
// lost count as of all.
func mentions(buf []byte, names []string) bool {
	for len(buf) >= unix.SizeofInotifyEvent {
		// SAFETY: the kernel writes whole events, aligned, and the length is checked.
		e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		end := unix.SizeofInotifyEvent + int(e.Len)
		if e.Mask&unix.IN_Q_OVERFLOW != 0 || end > len(buf) {
			return true
		}
		name := unix.ByteSliceToString(buf[unix.SizeofInotifyEvent:end])
		for _, wanted := range names {
			if name == wanted {
				return true
			}
		}
		buf = buf[end:]
	}
	return false
}
