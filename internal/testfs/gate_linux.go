package testfs

import (
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gated are the calls by which a process changes what others see of a
// directory and of locks.
var gated = []uint32{
	unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_FLOCK,
}

var callNames = map[int32]string{
	unix.SYS_LINKAT: "linkat", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_RENAMEAT2: "renameat2", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_FLOCK: "flock",
}

// BuildGate runs in a child of a test. From now on the child stands still
// before each gated call until the test lets it go, so that the test can kill
// it, or act itself, between any two. It returns the number that the test
// needs for OpenGate (seccomp_unotify(2), Linux 5.7).
func BuildGate() (int, error) {
	return seccomp(onCall(unix.SECCOMP_RET_USER_NOTIF, gated...),
		unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH|unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

// Call is a gated call that has not begun.
type Call struct{ seen notification }

func (c Call) String() string { return callNames[c.seen.number] }

// notification is struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	args       [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// Gate is the test's end.
type Gate struct {
	Calls <-chan Call // closed when the child is gone

	fd   int
	send chan<- Call
	end  chan struct{}
}

// OpenGate takes the gate from the child it was built in, and skips the test
// where that is not allowed. The child must be dead before the test ends.
func OpenGate(t testing.TB, pid, number int) *Gate {
	t.Helper()
	fd, err := fetch(pid, number)
	if err == unix.EPERM || err == unix.ENOSYS {
		t.Skipf("no way to stop a child between two calls: pidfd_getfd answers %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	calls, heard := make(chan Call), make(chan struct{})
	g := &Gate{Calls: calls, fd: fd, send: calls, end: make(chan struct{})}
	go func() {
		defer close(heard)
		g.listen()
	}()
	t.Cleanup(func() {
		close(g.end)
		<-heard
		unix.Close(fd)
	})
	return g
}

// fetch copies a descriptor out of another process.
func fetch(pid, number int) (int, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	return unix.PidfdGetfd(pidfd, number, 0)
}

func (g *Gate) listen() {
	defer close(g.send)
	for {
		poll := []unix.PollFd{{Fd: int32(g.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		}
		if poll[0].Revents&unix.POLLIN == 0 { // the last thread is gone
			return
		}
		var c Call
		_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(g.fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&c.seen)))
		switch errno {
		case 0:
			select {
			case g.send <- c:
			case <-g.end:
				return
			}
		case syscall.ENOENT, syscall.EINTR: // the caller died, or was interrupted
		default:
			return
		}
	}
}

// Pass lets a call go on.
func (g *Gate) Pass(c Call) {
	r := response{id: c.seen.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	syscall.Syscall(unix.SYS_IOCTL, uintptr(g.fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
}

// PassAll lets everything go on from now on.
func (g *Gate) PassAll() {
	go func() {
		for c := range g.Calls {
			g.Pass(c)
		}
	}()
}
