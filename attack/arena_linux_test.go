package attack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

// secret marks every content and every name outside.
const secret = "SECRET-OF-THE-OUTSIDE"

// aliasText is in a file that the attacker gives names inside, beside the two
// that it keeps: its link count is never one.
const aliasText = "ALIAS-OF-THE-OUTSIDE"

// arena is a tree with an inside, where everything is allowed to happen, and
// an outside, of which nothing may be seen.
type arena struct {
	base, root, outside, alias string
	calm, sink                 *caproot.Root                // to copy from and to, where nobody attacks
	inodes                     map[[2]uint64]string         // of the outside
	digests                    map[[sha256.Size]byte]string // of its files
	sealed                     string
	sealedAlias                string
	links                      caproot.HardlinkRule
}

func newArena(t *testing.T) *arena {
	base := t.TempDir()
	a := &arena{base: base, root: base + "/root", outside: base + "/outside", alias: base + "/alias/one", links: caproot.HardlinksAllow}
	for _, d := range []string{a.root, a.outside + "/" + secret + "-dir", a.outside + "/sub"} {
		must(t, os.MkdirAll(d, 0o777))
		must(t, os.Chmod(d, 0o777))
	}
	for _, f := range []string{secret + "-file", "f", "g", "sub/f", "sub/g"} {
		must(t, os.WriteFile(filepath.Join(a.outside, f), []byte(secret+" "+f), 0o666))
		must(t, os.Chmod(filepath.Join(a.outside, f), 0o666))
	}
	must(t, os.Symlink("f", a.outside+"/lk"))
	a.prepareCopies(t)
	must(t, os.WriteFile(a.alias, []byte(aliasText), 0o666))
	must(t, os.Link(a.alias, base+"/alias/two"))
	a.sealedAlias = a.sealAlias(t)
	inside, err := openTree(a.root)
	must(t, err)
	defer unix.Close(inside.fd)
	inside.repair()
	a.sealed, a.inodes = a.seal(t)
	return a
}

// prepareCopies makes the directories beside the inside.
func (a *arena) prepareCopies(t *testing.T) {
	for _, d := range []string{"/calm/b/c", "/sink", "/alias"} {
		must(t, os.MkdirAll(a.base+d, 0o777))
		must(t, os.Chmod(a.base+d, 0o777))
	}
	for _, f := range []string{"/calm/f", "/calm/b/f"} {
		must(t, os.WriteFile(a.base+f, []byte("inside"), 0o666))
	}
	must(t, os.Symlink("../f", a.base+"/calm/b/lk"))
	var err error
	a.calm, err = caproot.Open(a.base+"/calm", caproot.ReadOnly())
	must(t, err)
	t.Cleanup(func() { a.calm.Close() })
	compat := caproot.Compat()
	compat.Special = caproot.SpecialRefuse
	a.sink, err = caproot.Open(a.base+"/sink", compat)
	must(t, err)
	t.Cleanup(func() { a.sink.Close() })
}

// sealAlias leaves out the link count, which the attacker changes, and with it
// the time of the change.
func (a *arena) sealAlias(t *testing.T) string {
	info, err := os.Lstat(a.alias)
	must(t, err)
	data, err := os.ReadFile(a.alias)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintln(info.Mode(), st.Ino, st.Uid, st.Gid, st.Size, st.Mtim, string(data))
}

// seal writes down everything of the outside that must not change. Times of
// access do not count: the oracle reads too.
func (a *arena) seal(t *testing.T) (string, map[[2]uint64]string) {
	var b strings.Builder
	a.digests = map[[sha256.Size]byte]string{}
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
			a.digests[sha256.Sum256(data)] = path
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
	if now, _ := a.seal(t); now != a.sealed {
		return "outside changed:\n" + now + "\nwas\n" + a.sealed
	}
	if now := a.sealAlias(t); now != a.sealedAlias && a.links != caproot.HardlinksAllow {
		return "a file with names outside changed: " + now + "was " + a.sealedAlias
	}
	return ""
}

// reveals tells whether what a verb gave is of the outside.
func (a *arena) reveals(got any) string {
	switch got := got.(type) {
	case leak:
		return string(got)
	case []byte:
		if bytes.Contains(got, []byte(secret)) {
			return "content of the outside"
		}
		if a.links == caproot.HardlinksRefuse && bytes.Contains(got, []byte(aliasText)) {
			return "content of a file with names outside"
		}
	case string:
		if strings.Contains(got, secret) {
			return "text of the outside"
		}
	case fs.FileInfo:
		if st, ok := got.Sys().(*syscall.Stat_t); ok {
			return a.describes(uint64(st.Dev), st.Ino)
		}
	case identity.Receipt:
		if digest, err := hex.DecodeString(got.SHA256); err == nil && len(digest) == sha256.Size {
			if path, out := a.digests[[sha256.Size]byte(digest)]; out {
				return "digest of " + path
			}
		}
		return a.describes(got.ID.Dev, got.ID.Ino)
	case []fs.DirEntry:
		for _, e := range got {
			if strings.Contains(e.Name(), secret) {
				return "a name of the outside"
			}
		}
	case []any:
		for _, one := range got {
			if what := a.reveals(one); what != "" {
				return what
			}
		}
	}
	return ""
}

func (a *arena) describes(dev, ino uint64) string {
	if path, out := a.inodes[[2]uint64{dev, ino}]; out {
		return "description of " + path
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
