package attack

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// secret marks every content and every name outside.
const secret = "SECRET-OF-THE-OUTSIDE"

// arena is a tree with an inside, where everything is allowed to happen, and
// an outside, of which nothing may be seen.
type arena struct {
	base, root, outside string
	inodes              map[[2]uint64]string // of the outside
	sealed              string
}

func newArena(t *testing.T) *arena {
	base := t.TempDir()
	a := &arena{base: base, root: base + "/root", outside: base + "/outside"}
	for _, d := range []string{a.root, a.outside + "/" + secret + "-dir", a.outside + "/sub"} {
		must(t, os.MkdirAll(d, 0o777))
		must(t, os.Chmod(d, 0o777))
	}
	for _, f := range []string{secret + "-file", "f", "g", "sub/f", "sub/g"} {
		must(t, os.WriteFile(filepath.Join(a.outside, f), []byte(secret+" "+f), 0o666))
		must(t, os.Chmod(filepath.Join(a.outside, f), 0o666))
	}
	must(t, os.Symlink("f", a.outside+"/lk"))
	inside, err := openTree(a.root)
	must(t, err)
	defer unix.Close(inside.fd)
	inside.repair()
	a.sealed, a.inodes = a.seal(t)
	return a
}

// seal writes down everything of the outside that must not change. Times of
// access do not count: the oracle reads too.
func (a *arena) seal(t *testing.T) (string, map[[2]uint64]string) {
	var b strings.Builder
	inodes := map[[2]uint64]string{}
	must(t, filepath.Walk(a.outside, func(path string, i fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := i.Sys().(*syscall.Stat_t)
		inodes[[2]uint64{st.Dev, st.Ino}] = path
		fmt.Fprintln(&b, path, i.Mode(), st.Ino, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim, st.Ctim)
		if i.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			b.Write(data)
			return err
		}
		return nil
	}))
	return b.String(), inodes
}

// unmount takes away the mounts that a killed attacker left, the last first,
// because it may hide another.
func (a *arena) unmount(t *testing.T) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	lines := strings.Split(string(table), "\n")
	for _, line := range slices.Backward(lines) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], a.base+"/") {
			must(t, unix.Unmount(fields[4], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
		}
	}
}

// changed tells what is not as it was outside.
func (a *arena) changed(t *testing.T) string {
	now, _ := a.seal(t)
	if now == a.sealed {
		return ""
	}
	return "outside changed:\n" + now + "\nwas\n" + a.sealed
}

// reveals tells whether what a verb gave is of the outside.
func (a *arena) reveals(got any) string {
	switch got := got.(type) {
	case []byte:
		if bytes.Contains(got, []byte(secret)) {
			return "content of the outside"
		}
	case string:
		if strings.Contains(got, secret) {
			return "text of the outside"
		}
	case fs.FileInfo:
		if st, ok := got.Sys().(*syscall.Stat_t); ok && got != nil {
			if path, out := a.inodes[[2]uint64{uint64(st.Dev), st.Ino}]; out {
				return "description of " + path
			}
		}
	case []fs.DirEntry:
		for _, e := range got {
			if strings.Contains(e.Name(), secret) {
				return "a name of the outside"
			}
		}
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
