package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// specials makes one of every kind of special file in dir and returns their
// names. Devices need the right to make them.
func specials(t *testing.T, dir string) []string {
	must(t, unix.Mkfifo(dir+"/fifo", 0o644))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(socket)
	must(t, os.Chmod(dir, 0o755))
	at, err := os.Open(dir) // the path itself may be too long for a socket
	must(t, err)
	defer at.Close()
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", at.Fd())}))
	names := []string{"fifo", "socket"}
	for name, dev := range map[string]struct{ kind, major, minor uint32 }{
		"zero": {unix.S_IFCHR, 1, 5}, "null": {unix.S_IFCHR, 1, 3}, "tty": {unix.S_IFCHR, 5, 0}, "nodriver": {unix.S_IFBLK, 250, 77},
	} {
		if err := unix.Mknod(dir+"/"+name, dev.kind|0o644, int(unix.Mkdev(dev.major, dev.minor))); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// opening lists the verbs that open what the name leads to.
var opening = []string{"Open", "OpenView", "ReadFile", "WriteFile", "Create", "Put", "PutParents", "Append", "Truncate", "Chmod",
	"Chown", "Chtimes"}

// cases 37, 38, 39: no verb waits for a FIFO, a socket or a device, reads from
// one or changes it; those that open it say what it is.
func TestSpecialFilesNeverBlock(t *testing.T) {
	for _, p := range []Policy{Workspace(), Extract(), ReadOnly(), {Rights: AllRights}} {
		eachResolver(t, relaxed(p), func(t *testing.T, r *Root, base string) {
			for _, name := range specials(t, base+"/root") {
				before, err := os.Lstat(base + "/root/" + name)
				must(t, err)
				for verb, call := range verbs(r) {
					if takesAway(verb) {
						continue
					}
					within(t, verb+" "+name, func() { err = call(name) })
					if slices.Contains(opening, verb) && !errors.Is(err, ErrSpecial) && !errors.Is(err, ErrPolicy) {
						t.Errorf("%s(%s): %v", verb, name, err)
					}
				}
				after, err := os.Lstat(base + "/root/" + name)
				must(t, err)
				if !os.SameFile(before, after) || before.Mode() != after.Mode() || before.ModTime() != after.ModTime() {
					t.Errorf("%s changed: %v %v", name, after.Mode(), after.ModTime())
				}
			}
		})
	}
}

// case 37: a peer that waits for a FIFO's other end never gets one, so no
// reader or writer of another process is disturbed either.
func TestFifoPeerIsLeftAlone(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, unix.Mkfifo(base+"/root/fifo", 0o644))
		peer, err := os.OpenFile(base+"/root/fifo", os.O_RDWR, 0)
		must(t, err)
		defer peer.Close()
		_, err = peer.WriteString("for another")
		must(t, err)
		for _, verb := range opening {
			want(t, verb, verbs(r)[verb]("fifo"), ErrSpecial)
		}
		data := make([]byte, 64)
		n, err := peer.Read(data)
		if string(data[:n]) != "for another" {
			t.Errorf("the peer reads %q, %v", data[:n], err)
		}
	})
}

// case 39: a terminal that is opened does not become the controlling one.
func TestNoControllingTerminal(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{Setsid: true}) {
		return
	}
	if _, err := os.Open("/dev/tty"); !errors.Is(err, syscall.ENXIO) {
		t.Skipf("the session has a terminal, or there is no /dev/tty: %v", err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals: %v", err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	for _, resolver := range []string{"kernel", "walker"} {
		r, err := Open("/dev/pts", Compat())
		must(t, err)
		defer r.Close()
		if resolver == "walker" {
			r.beneath = nil
		}
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR} {
			f, err := r.OpenFile(fmt.Sprint(n), flag, 0)
			if errors.Is(err, fs.ErrNotExist) {
				t.Skip("/dev/ptmx belongs to another instance of devpts")
			}
			must(t, err)
			defer f.Close()
		}
		if _, err := os.Open("/dev/tty"); !errors.Is(err, syscall.ENXIO) {
			t.Errorf("%s: the process has a controlling terminal now: %v", resolver, err)
		}
	}
}

// case 38: ENXIO of something that is regular by the time it is looked at is
// not given the cause of a FIFO.
func TestNoDeviceErrorIsLookedAt(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		sys, kernel := r.sys, r.beneath
		r.sys = &noDevice{system: sys}
		if kernel != nil {
			r.beneath = &noDevice{system: sys, kernel: kernel}
		}
		err := verbs(r)["Truncate"]("f")
		r.sys, r.beneath = sys, kernel
		if !errors.Is(err, syscall.ENXIO) || errors.Is(err, ErrSpecial) {
			t.Errorf("Truncate: %v", err)
		}
	})
}

// noDevice answers ENXIO to every open for writing.
type noDevice struct {
	system
	kernel beneathOpener
}

func (n *noDevice) open(d handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	if how&forWrite != 0 {
		return noHandle, syscall.ENXIO
	}
	return n.system.open(d, name, how, perm)
}

func (n *noDevice) openBeneath(d handle, path string, how openHow, perm fs.FileMode, rule beneathRule) (handle, error) {
	if how&forWrite != 0 {
		return noHandle, syscall.ENXIO
	}
	return n.kernel.openBeneath(d, path, how, perm, rule)
}
