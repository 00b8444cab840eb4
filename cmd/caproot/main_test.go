package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/caproot/caproot/internal/testfs"
)

// built is the path of the command, made once. The tests run it as a user would.
// Where there is no Go to make it, CAPROOT_COMMAND names one that was made elsewhere.
var built = os.Getenv("CAPROOT_COMMAND")

func TestMain(m *testing.M) {
	if os.Getenv(reader) != "" {
		readToEnd()
		return
	}
	if built != "" {
		os.Exit(m.Run())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "caproot-command-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = filepath.Join(dir, "caproot")
		// Other users run it too.
		err = os.Chmod(dir, 0o755)
		if out, berr := exec.Command("go", "build", "-o", built, ".").CombinedOutput(); err != nil || berr != nil {
			fmt.Fprintf(os.Stderr, "build: %v %v\n%s", err, berr, out)
			return 1
		}
		return m.Run()
	}())
}

// result is what one command line gave.
type result struct {
	code     int // -1 when a signal ended it
	out, err string
}

func command(args ...string) *exec.Cmd { return exec.Command(built, args...) }

func caprootRun(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	return finish(t, cmd)
}

// finish runs the command and sees that its messages have the documented form.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errOut
	err := cmd.Run()
	if cmd.Process == nil && err != nil && testfs.UnderWine() {
		// Wine fails to start a process now and then, with an internal error.
		again := exec.Command(cmd.Args[0], cmd.Args[1:]...)
		again.Stdin, again.Stdout, again.Stderr, again.Env, again.Dir = cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir
		cmd, err = again, again.Run()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	checkMessages(t, cmd.Args, errOut.String())
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

var messageForm = regexp.MustCompile(`^caproot: [a-z-]+: .+$`)

func checkMessages(t *testing.T, args []string, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); !messageForm.MatchString(line) || strings.ContainsFunc(line, notShown) {
			t.Errorf("%q: message %q has not the form caproot: CODE: text", args, line)
		}
	}
}

func notShown(r rune) bool { return !unicode.IsPrint(r) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needsLinks skips where the system makes no symbolic links: it refuses, as
// Windows without the privilege, or says yes and makes nothing, as Wine.
func needsLinks(t *testing.T) {
	t.Helper()
	if !makesLinks(t.TempDir()) {
		t.Skip("no symbolic links here")
	}
}

func makesLinks(dir string) bool {
	probe := filepath.Join(dir, "link")
	err := os.Symlink("nowhere", probe)
	_, lerr := os.Lstat(probe)
	return err == nil && lerr == nil
}

// needsModes skips where a file has no mode beyond read-only.
func needsModes(t *testing.T) {
	t.Helper()
	if !keepsModes(t) {
		t.Skip("no modes here but read-only")
	}
}

func keepsModes(t *testing.T) bool {
	probe := filepath.Join(t.TempDir(), "mode")
	must(t, os.WriteFile(probe, nil, 0o640))
	info, err := os.Stat(probe)
	must(t, err)
	return info.Mode().Perm() == 0o640
}

// tree makes outside/secret and root/ with f, dir/g, and out -> ../outside if
// there are links here.
func tree(t *testing.T) (base, root string) {
	base = t.TempDir()
	root = filepath.Join(base, "root")
	must(t, os.MkdirAll(filepath.Join(root, "dir"), 0o755))
	must(t, os.Mkdir(filepath.Join(base, "outside"), 0o755))
	must(t, os.WriteFile(filepath.Join(base, "outside", "secret"), []byte("secret"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("content"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "dir", "g"), []byte("deep"), 0o644))
	if makesLinks(base) {
		must(t, os.Remove(filepath.Join(base, "link")))
		must(t, os.Symlink("../outside", filepath.Join(root, "out")))
	}
	return base, root
}

// checkOutside sees that the directory beside the root is as tree made it.
func checkOutside(t *testing.T, base string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(base, "outside"))
	if err != nil || len(left) != 1 {
		t.Errorf("outside has %d entries, had 1; %v", len(left), err)
	}
	if data, err := os.ReadFile(filepath.Join(base, "outside", "secret")); err != nil || string(data) != "secret" {
		t.Errorf("outside holds %q, %v", data, err)
	}
}

// checkNothingLeft sees that no stage or scratch directory stands in the tree.
func checkNothingLeft(t *testing.T, root string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".caproot-") {
			t.Errorf("left behind: %s", path)
		}
		return err
	}))
}

// crowd makes n files of known content in dir.
func crowd(t *testing.T, dir string, n int) {
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d", i%20))
		must(t, os.MkdirAll(sub, 0o755))
		must(t, os.WriteFile(filepath.Join(sub, strconv.Itoa(i)), crowdContent(i), 0o644))
	}
}

func crowdContent(i int) []byte { return bytes.Repeat([]byte(strconv.Itoa(i)+"\n"), 1+i*7%400) }

// wholeFiles sees that each file in dir is one of crowd's, whole, and counts them.
func wholeFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Errorf("odd file %s", path)
			return nil
		}
		if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, crowdContent(i)) {
			t.Errorf("%s is torn: %d bytes, %v", path, len(data), err)
		}
		n++
		return nil
	}))
	return n
}
