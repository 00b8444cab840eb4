package caproot

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// aclOf makes an access list in the kernel's form (linux/posix_acl_xattr.h): the
// user 1000 may do as told, the owning group may read, anything else is up to
// the mask.
func aclOf(user, mask, other uint16) []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, 1<<32 - 1}, {2, user, 1000}, {4, 4, 1<<32 - 1}, {16, mask, 1<<32 - 1}, {32, other, 1<<32 - 1}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

func setACL(t *testing.T, path, kind string, list []byte) {
	t.Helper()
	if err := unix.Setxattr(path, "system.posix_acl_"+kind, list, 0); err != nil {
		t.Skipf("no access lists here: %v", err)
	}
}

// aclAt is the access list of a file, nil if it has none.
func aclAt(t *testing.T, path string) []byte {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Lgetxattr(path, accessList, buf)
	if err == syscall.ENODATA || err == syscall.EOPNOTSUPP {
		return nil
	}
	must(t, err)
	return buf[:n]
}

// The group's bits of a file with an access list are its mask. A replacement
// with the same mode and no list would give the owning group all of it, and
// take from others what an entry refused them.
func TestPutKeepsAccessList(t *testing.T) {
	p := Workspace()
	p.Modes = 0o775
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		f := base + "/root/f"
		for _, list := range [][]byte{aclOf(6, 6, 0), aclOf(0, 7, 4), nil} {
			if list != nil {
				setACL(t, f, "access", list)
			} else {
				must(t, unix.Removexattr(f, accessList))
			}
			before, err := os.Lstat(f)
			must(t, err)
			for _, missing := range []string{"nothing", "unnamed", "publish"} {
				s := hook(r, answers(map[string]error{missing: syscall.EOPNOTSUPP}))
				receipt, err := r.Put("f", []byte("x"), PutOptions{})
				must(t, err)
				if now := aclAt(t, f); !bytes.Equal(now, list) || slices.Contains(receipt.Lost, "access-list") {
					t.Errorf("%s missing: list % x, was % x; lost %q", missing, now, list, receipt.Lost)
				}
				wantMode(t, base, "f", before.Mode())
				r.sys = s.system
			}
		}
		// A policy without the group's bits cuts the mask.
		for _, other := range []uint16{0, 4} {
			setACL(t, f, "access", aclOf(6, 7, other))
			r.policy.Modes = 0o704
			_, err := r.Put("f", nil, PutOptions{})
			must(t, err)
			wantMode(t, base, "f", 0o600|fs.FileMode(other))
			if now := aclAt(t, f); !bytes.Equal(now, aclOf(6, 0, other)) {
				t.Errorf("list % x", now)
			}
		}
	})
}

// A list that cannot be kept, or looked for, leaves the owner's bits.
func TestPutLosesAccessList(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		hook(r, answers(map[string]error{"copyaccess": syscall.EIO}))
		receipt, err := r.Put("f", []byte("x"), PutOptions{})
		must(t, err)
		wantMode(t, base, "f", 0o600)
		if !slices.Equal(receipt.Lost, []string{"access-list"}) {
			t.Errorf("lost %q", receipt.Lost)
		}
		// Who gives the mode wants nothing kept.
		receipt, err = r.Put("f", []byte("x"), PutOptions{Mode: 0o644})
		must(t, err)
		wantMode(t, base, "f", 0o644)
		if receipt.Lost != nil {
			t.Errorf("lost %q", receipt.Lost)
		}
	})
}

// What a directory gives to new files by default, the file replaced may not have had.
func TestPutTakesNoDefaultList(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Chmod(base+"/root/dir/file", 0o640))
		setACL(t, base+"/root/dir", "default", aclOf(6, 7, 0))
		_, err := r.Put("dir/file", []byte("x"), PutOptions{})
		must(t, err)
		wantMode(t, base, "dir/file", 0o640)
		if now := aclAt(t, base+"/root/dir/file"); now != nil {
			t.Errorf("list % x", now)
		}
	})
}

// Without /proc the list is read through the file.
func TestAccessListWithoutProc(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", nil, 0o600))
	setACL(t, dir+"/f", "access", aclOf(6, 6, 0))
	list, err := linuxSystem{}.access(noHandle, "f")
	want(t, "no directory", err, syscall.EBADF)
	if len(list) != 0 {
		t.Errorf("% x", list)
	}
	h, err := openPath(dir)
	must(t, err)
	defer linuxSystem{}.close(h)
	list, err = linuxSystem{}.accessByHandle(h, "f")
	must(t, err)
	if !bytes.Equal(list, aclOf(6, 6, 0)) {
		t.Errorf("% x", list)
	}
}
