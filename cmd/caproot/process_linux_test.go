package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The receipts fill a pipe that nobody reads, so the signal comes while the
// import is at work (case 94).
func TestSignalDuringImport(t *testing.T) {
	const all = 2000
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			base := t.TempDir()
			src, root := filepath.Join(base, "src"), filepath.Join(base, "root")
			must(t, os.Mkdir(root, 0o755))
			crowd(t, src, all)
			cmd := command("import", "--durability", "none", src, root)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			lines := bufio.NewReader(out)
			first, err := lines.ReadString('\n')
			must(t, err)
			must(t, cmd.Process.Signal(sig))
			rest, err := io.ReadAll(lines)
			must(t, err)
			_ = cmd.Wait()
			checkMessages(t, cmd.Args, errOut.String())
			n := wholeFiles(t, root)
			if n == 0 || n == all {
				t.Errorf("%d of %d files were copied, want some", n, all)
			}
			checkNothingLeft(t, root)
			if sig == syscall.SIGKILL {
				return
			}
			if code := cmd.ProcessState.ExitCode(); code != exitFailed || strings.Count(errOut.String(), "\n") != 2 || !strings.Contains(errOut.String(), "\ncaproot: canceled: ") {
				t.Errorf("exit %d, stderr %s", code, errOut.String())
			}
			if !strings.Contains(errOut.String(), fmt.Sprintf("caproot: note: imported %d files", n)) {
				t.Errorf("%d files and the summary %s", n, errOut.String())
			}
			if got := caprootRun(t, first+string(rest), "check", "-q", root, "-"); got != (result{}) {
				t.Errorf("check of what was imported: %+v", got)
			}
		})
	}
}

// put is killed while half of its input is there: the old file stays, and
// nothing else (case 94).
func TestPutKilled(t *testing.T) {
	for _, name := range []string{"f", "new"} {
		_, root := tree(t)
		cmd := command("put", root, name)
		in, err := cmd.StdinPipe()
		must(t, err)
		must(t, cmd.Start())
		// More than a pipe holds (64 KiB), so put has read some of it.
		_, err = in.Write(make([]byte, 1<<20))
		must(t, err)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		in.Close()
		if data, _ := os.ReadFile(filepath.Join(root, "f")); string(data) != "content" {
			t.Errorf("put of %s: f holds %d bytes", name, len(data))
		}
		if entries, err := os.ReadDir(root); err != nil || len(entries) != 3 {
			t.Errorf("put of %s: the root holds %v, %v", name, entries, err)
		}
	}
}

// A producer that dies looks like one that is done, as docs/cli.md says. What
// came is published whole; a failing read publishes nothing.
func TestPutFromPipes(t *testing.T) {
	_, root := tree(t)
	put := command("put", root, "f")
	producer := exec.Command("sh", "-c", "printf half; kill -KILL $$")
	pipe, err := producer.StdoutPipe()
	must(t, err)
	must(t, producer.Start())
	put.Stdin = pipe
	if got := finish(t, put); got.code != exitDone {
		t.Errorf("put: %+v", got)
	}
	_ = producer.Wait()
	if data, _ := os.ReadFile(filepath.Join(root, "f")); string(data) != "half" {
		t.Errorf("f holds %q", data)
	}
	dir, err := os.Open(root)
	must(t, err)
	defer dir.Close()
	put = command("put", root, "f")
	put.Stdin = dir
	if got := finish(t, put); got.code != exitFailed || !strings.HasPrefix(got.err, "caproot: is-dir: ") {
		t.Errorf("put from a directory: %+v", got)
	}
	if data, _ := os.ReadFile(filepath.Join(root, "f")); string(data) != "half" {
		t.Errorf("f holds %q after a failed put", data)
	}
	checkNothingLeft(t, root)
}

// printing are the commands that write data, on the tree of tree.
func printing(base, root string) [][]string {
	receipt := filepath.Join(base, "receipt")
	return [][]string{
		{"cat", root, "f"}, {"cat", "--json", root, "f"}, {"ls", root}, {"ls", "-l", root}, {"ls", "-R", "--json", root}, {"stat", root, "f"},
		{"receipt", root, "f"}, {"check", "--json", root, receipt}, {"names", "a"}, {"names", "--json", "a"}, {"probe", root},
		{"probe", "--json", root}, {"put", "--json", root, "f"}, {"mkdir", "--json", root, "new"}, {"mv", "--json", root, "f", "h"},
		{"rm", "--json", root, "h"}, {"import", "-q", filepath.Join(root, "dir"), root, "copy"},
	}
}

// showing are those that take no root of a policy, or have findings to tell.
func showing(base, root string) [][]string {
	return [][]string{
		{"--help"}, {"rm", "--help"}, {"--version"}, {"audit", root}, {"audit", "--json", root}, {"demo"}, {"demo", "--json"},
		{"lock-status", filepath.Join(base, "target")}, {"lock-status", "--json", filepath.Join(base, "target")},
		{"update", "--json", root, "dir/g", "--", "cat"},
	}
}

func TestOutputThatTakesNothing(t *testing.T) {
	base, root := tree(t)
	must(t, os.WriteFile(filepath.Join(base, "receipt"), []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
	for _, args := range append(printing(base, root), showing(base, root)...) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skipf("no /dev/full: %v", err)
		}
		cmd := command(args...)
		cmd.Stdout = full
		got := finish(t, cmd)
		full.Close()
		if got.code != exitFailed || !strings.HasPrefix(got.err, "caproot: no-space: ") {
			t.Errorf("%s to a full device: %+v", strings.Join(args, " "), got)
		}
	}
	checkNothingLeft(t, root)
}

// A reader that has gone ends the command by SIGPIPE, as it does others.
func TestOutputThatIsClosed(t *testing.T) {
	base, root := tree(t)
	must(t, os.WriteFile(filepath.Join(base, "receipt"), []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
	for _, args := range append(printing(base, root), showing(base, root)...) {
		cmd := command(args...)
		if err := runToClosedPipe(t, cmd); !signaledBy(err, syscall.SIGPIPE) {
			t.Errorf("%s to a closed pipe: %v", strings.Join(args, " "), err)
		}
	}
	checkNothingLeft(t, root)
}

func runToClosedPipe(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	r.Close()
	defer w.Close()
	cmd.Stdout = w
	return cmd.Run()
}

func signaledBy(err error, sig syscall.Signal) bool {
	exit, ok := err.(*exec.ExitError)
	return ok && exit.Sys().(syscall.WaitStatus).Signaled() && exit.Sys().(syscall.WaitStatus).Signal() == sig
}

// case 106
func TestFullDisk(t *testing.T) {
	base := t.TempDir()
	root, src := filepath.Join(base, "root"), filepath.Join(base, "src")
	must(t, os.MkdirAll(root, 0o755))
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no mount of a small tmpfs: %v", err)
	}
	defer unix.Unmount(root, unix.MNT_DETACH)
	if got := caprootRun(t, "old", "put", root, "f"); got.code != 0 {
		t.Fatalf("put: %+v", got)
	}
	for _, name := range []string{"f", "new"} {
		got := caprootRun(t, strings.Repeat("x", 400<<10), "put", "--json", root, name)
		if got.code != exitFailed || got.out != "" || !strings.HasPrefix(got.err, "caproot: no-space: ") {
			t.Errorf("put of %s: %+v", name, got)
		}
	}
	must(t, os.Mkdir(src, 0o755))
	must(t, os.WriteFile(filepath.Join(src, "big"), make([]byte, 400<<10), 0o644))
	must(t, os.WriteFile(filepath.Join(src, "small"), []byte("s"), 0o644))
	// One worker: the stage of another's file may take the space for a moment.
	got := caprootRun(t, "", "import", "--workers", "1", src, root)
	if got.code != exitFailed || !strings.Contains(got.err, `caproot: no-space: put "big"`) || !strings.Contains(got.err, "imported 1 files") {
		t.Errorf("import: %+v", got)
	}
	if data, _ := os.ReadFile(filepath.Join(root, "f")); string(data) != "old" {
		t.Errorf("f holds %d bytes", len(data))
	}
	if entries, _ := os.ReadDir(root); len(entries) != 2 {
		t.Errorf("the root holds %v, want f and small", entries)
	}
}

// asNobody runs the command without the rights of root, where base can be read.
func asNobody(t *testing.T, base string, args ...string) result {
	t.Helper()
	cmd := command(args...)
	cmd.Stdin = strings.NewReader("x")
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(base, "tmp"))
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return finish(t, cmd)
}

func TestReadOnlyDirectory(t *testing.T) {
	base, root := tree(t)
	must(t, os.Chmod(filepath.Dir(base), 0o755)) // so that nobody gets here
	must(t, os.Mkdir(filepath.Join(base, "tmp"), 0o755))
	must(t, os.Chmod(filepath.Join(base, "tmp"), 0o777|os.ModeSticky))
	must(t, os.Chmod(root, 0o555))
	defer os.Chmod(root, 0o755)
	for _, args := range [][]string{
		{"put", root, "new"}, {"put", root, "f"}, {"mkdir", root, "new"}, {"rm", root, "f"}, {"mv", root, "f", "h"},
		{"import", "-q", filepath.Join(root, "dir"), root},
	} {
		if got := asNobody(t, base, args...); got.code != exitFailed || !strings.HasPrefix(got.err, "caproot: permission: ") {
			t.Errorf("%s: %+v", args[0], got)
		}
	}
	if got := asNobody(t, base, "cat", root, "f"); got.code != exitDone || got.out != "content" {
		t.Errorf("cat: %+v", got)
	}
	// Case 64: what cannot be tried is unknown, and that is not permission.
	got := asNobody(t, base, "probe", "--json", "--require", "case-folding", root)
	if got.code != exitFailed || !strings.Contains(got.out, `{"feature":"case-folding","here":"unknown","why":"permission"}`) {
		t.Errorf("probe: %+v", got)
	}
	if entries, _ := os.ReadDir(root); len(entries) != 3 {
		t.Errorf("the root holds %v", entries)
	}
}

// Case 170: what cannot be read is told, and the rest is listed.
func TestListingOfUnreadable(t *testing.T) {
	base, root := tree(t)
	must(t, os.Chmod(filepath.Dir(base), 0o755))
	must(t, os.Chmod(filepath.Join(root, "dir"), 0))
	defer os.Chmod(filepath.Join(root, "dir"), 0o755)
	got := asNobody(t, base, "ls", "-R", root)
	if got.code != exitFailed || got.out != "dir\nf\nout\n" || !strings.HasPrefix(got.err, `caproot: permission: `) || strings.Count(got.err, "\n") != 1 {
		t.Errorf("ls -R: %+v", got)
	}
}

// terminal opens a pair of pseudo-terminals.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	return master, slave
}

func TestProgressIsForTerminals(t *testing.T) {
	base, root := tree(t)
	src := source(t, base)
	for _, flags := range [][]string{nil, {"-q"}} {
		master, slave := terminal(t)
		cmd := command(append(flags, "import", src, root, "copy")...)
		cmd.Stderr = slave
		must(t, cmd.Run())
		slave.Close()
		drawn, _ := io.ReadAll(master) // ends with EIO once no slave is open
		if got := bytes.Contains(drawn, []byte("\r\x1b[K")); got != (flags == nil) {
			t.Errorf("%q on a terminal: %q", flags, drawn)
		}
	}
	if got := caprootRun(t, "", "import", src, root, "copy"); strings.Contains(got.err, "\x1b") {
		t.Errorf("into a pipe: %+v", got)
	}
}
