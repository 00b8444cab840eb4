package scratch

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// limit is how many descriptors the process of TestNewWithoutDescriptors may have.
const limit = 64

// fill takes every descriptor there is.
func fill(t *testing.T) (taken []int) {
	t.Helper()
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			return taken
		}
		must(t, err)
		taken = append(taken, fd)
	}
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// taken counts descriptors without one of its own.
func taken() (n int) {
	for fd := range limit {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			n++
		}
	}
	return n
}

// New with room for so many descriptors makes everything, or leaves nothing.
func TestNewWithoutDescriptors(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	_, tmp, r := place(t)
	d, err := New(r, "tmp", Options{Prefix: prefix}) // what the runtime opens once
	must(t, err)
	must(t, d.Remove())
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }()
	room := 0
	for made := false; !made; room++ {
		all := fill(t)
		if room >= len(all) {
			t.Fatalf("no scratch directory with %d descriptors", room)
		}
		closeFDs(all[:room])
		before := taken()
		d, err := New(r, "tmp", Options{Prefix: prefix})
		if made = err == nil; made {
			err = d.Remove()
		} else if errors.Is(err, unix.EMFILE) {
			err = nil
		}
		after := taken()
		closeFDs(all[room:])
		if err != nil || after != before {
			t.Errorf("room for %d: %d descriptors, %d before: %v", room, after, before, err)
		}
		wantNames(t, tmp)
	}
	t.Logf("room for %d is enough", room-1)
}
