package caproot

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// casefold makes a directory of names without case: a tmpfs whose kernel has
// Unicode (Linux 6.13, CONFIG_UNICODE). FS_CASEFOLD_FL is of linux/fs.h.
func casefold(t *testing.T, dir string) {
	t.Helper()
	const casefoldFlag = 0x40000000
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "casefold=utf8-12.1.0"); err != nil {
		t.Skipf("no file system without case: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	must(t, os.Mkdir(dir+"/folded", 0o755))
	f, err := os.Open(dir + "/folded")
	must(t, err)
	defer f.Close()
	must(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, casefoldFlag))
}

// What is denied is denied by each of the names that a folding file system has
// for it, also below a link that spells it otherwise.
func TestDenyWithoutCase(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/ci", 0o755))
		casefold(t, base+"/root/ci")
		must(t, os.MkdirAll(base+"/root/ci/folded/Secret", 0o755))
		must(t, os.WriteFile(base+"/root/ci/folded/Secret/Key", []byte("denied"), 0o644))
		if _, err := os.Stat(base + "/root/ci/folded/SECRET/KEY"); err != nil {
			t.Fatalf("case is not folded: %v", err)
		}
		must(t, os.Symlink("ci/folded/sEcReT", base+"/root/alias"))
		sub, err := r.Grant(".", Grant{Policy: Compat(), Deny: []string{"ci/folded/Secret"}})
		must(t, err)
		defer sub.Close()
		for _, name := range []string{"ci/folded/Secret/Key", "ci/folded/SECRET/KEY", "ci/folded/secret/key", "alias/key"} {
			want(t, name, errOf(sub.ReadFile(name)), ErrPolicy)
			want(t, name, errOf(sub.Put(name, nil, PutOptions{})), ErrPolicy)
		}
		if data, err := os.ReadFile(base + "/root/ci/folded/Secret/Key"); string(data) != "denied" {
			t.Errorf("%q, %v", data, err)
		}
	})
}
