package caproot_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// The child of the examples is this program once more, with this variable set.
const childEnv = "CAPROOT_EXAMPLE_CHILD"

// A parent opens a directory and passes it on; the child, which need not be able
// to find or open it by a path, makes a Root of it with the rights it is to have.
func ExampleFromFile() {
	if os.Getenv(childEnv) != "" {
		work(os.NewFile(3, "granted")) // the first of ExtraFiles
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	p := caproot.Workspace()
	p.Rights |= caproot.Share
	r, err := caproot.Open(dir, p)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	f, err := r.File()
	if err != nil {
		panic(err)
	}
	defer f.Close()
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	child := exec.Command(self, "-test.run=^ExampleFromFile$")
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Dir = "/"
	child.ExtraFiles = []*os.File{f}
	fmt.Println(child.Run())
	data, err := r.ReadFile("report")
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// <nil>
	// escape policy <nil>
}

// work is what the child does with the directory.
func work(dir *os.File) {
	r, err := caproot.FromFile(dir, caproot.Workspace())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, up := r.ReadFile("../secret")
	_, out := r.File()
	report := fmt.Sprint(caproot.Code(up), " ", caproot.Code(out))
	if _, err = r.Put("report", []byte(report), caproot.PutOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A directory that goes to another process over a Unix socket (SCM_RIGHTS,
// unix(7)) keeps its identity, wherever it is moved meanwhile.
func TestRootOverSocket(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		dir, err := receive(os.NewFile(3, "socket"))
		if err != nil {
			t.Fatal(err)
		}
		work(dir)
	}
	base := t.TempDir()
	if err := os.Mkdir(base+"/root", 0o700); err != nil {
		t.Fatal(err)
	}
	p := caproot.Workspace()
	p.Rights |= caproot.Share
	r, err := caproot.Open(base+"/root", p)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "mine"), os.NewFile(uintptr(pair[1]), "theirs")
	defer mine.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^TestRootOverSocket$")
	child.Env = append(os.Environ(), childEnv+"=1")
	child.ExtraFiles = []*os.File{theirs}
	var out strings.Builder
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if err := os.Rename(base+"/root", base+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := send(mine, r); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	data, err := os.ReadFile(base + "/moved/report")
	if string(data) != "escape policy" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// send passes the directory of r on.
func send(socket *os.File, r *caproot.Root) error {
	f, err := r.File()
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := net.FileConn(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(int(f.Fd())), nil)
	return err
}

// receive takes one descriptor from the socket.
func receive(socket *os.File) (*os.File, error) {
	c, err := net.FileConn(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "received"), nil
}
