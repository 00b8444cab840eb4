package caproot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk is a root on a tmpfs of its own.
func smallDisk(t *testing.T, options string) (r *Root, dir string) {
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no mount of a small tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	r, err := Open(dir, Workspace())
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r, dir
}

// case 94: whichever way content comes, a full disk keeps the old bytes and
// leaves no stage; with and without unnamed files.
func TestFullDiskKeepsOldContent(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	r, dir := smallDisk(t, "size=64k")
	old := bytes.Repeat([]byte("o"), 1024)
	must(t, os.WriteFile(dir+"/f", old, 0o600))
	big := make([]byte, 400<<10)
	for _, missing := range []string{"nothing", "unnamed", "publish"} {
		s := hook(r, answers(map[string]error{missing: syscall.EOPNOTSUPP}))
		receipt, err := r.Receipt("f")
		must(t, err)
		for _, name := range []string{"f", "new"} {
			for how, put := range map[string]func() error{
				"Put":     func() error { _, err := r.Put(name, big, PutOptions{}); return err },
				"IfMatch": func() error { _, err := r.Put("f", big, PutOptions{IfMatch: &receipt}); return err },
				"PutFrom": func() error {
					_, err := r.PutFrom(t.Context(), name, bytes.NewReader(big), PutOptions{})
					return err
				},
				"Stage": func() error {
					s, err := r.Stage(name, PutOptions{})
					must(t, err)
					_, werr := s.Write(big)
					want(t, "Write", werr, syscall.ENOSPC)
					_, err = s.Commit()
					return err
				},
			} {
				err := put()
				want(t, missing+" missing, "+how, err, syscall.ENOSPC)
				if Code(err) != "no-space" {
					t.Errorf("code %q", Code(err))
				}
				data, err := os.ReadFile(dir + "/f")
				must(t, err)
				if entries, _ := os.ReadDir(dir); !bytes.Equal(data, old) || len(entries) != 1 {
					t.Errorf("%s: %d old bytes, %v", how, len(data), entries)
				}
			}
		}
		r.sys = s.system
	}
	_, err := r.Put("f", []byte("small"), PutOptions{})
	must(t, err)
}

// The verbs that write in place say how far they came.
func TestFullDiskInPlace(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	r, dir := smallDisk(t, "size=64k")
	_, err := r.Append("log", make([]byte, 400<<10), AppendOptions{})
	want(t, "Append", err, syscall.ENOSPC)
	i, serr := os.Stat(dir + "/log")
	must(t, serr)
	if !strings.Contains(err.Error(), fmt.Sprintf("%d of %d bytes", i.Size(), 400<<10)) || i.Size() == 0 {
		t.Errorf("%d bytes there, %v", i.Size(), err)
	}
	want(t, "WriteFile", r.WriteFile("log", make([]byte, 400<<10), 0o600), syscall.ENOSPC)
}

// case 94: no inode left.
func TestNoInodesLeft(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	r, dir := smallDisk(t, "nr_inodes=6")
	must(t, os.WriteFile(dir+"/f", []byte("old"), 0o600))
	var made []string
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s/fill%d", dir, i)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			want(t, "filling up", err, syscall.ENOSPC)
			break
		}
		made = append(made, name)
	}
	for _, name := range []string{"f", "new", "sub/new"} {
		_, err := r.Put(name, []byte("x"), PutOptions{Parents: true})
		want(t, name, err, syscall.ENOSPC)
	}
	if data, _ := os.ReadFile(dir + "/f"); string(data) != "old" {
		t.Errorf("content %q", data)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != len(made)+1 {
		t.Errorf("left: %v", entries)
	}
	must(t, os.Remove(made[0]))
	_, err := r.Put("f", []byte("x"), PutOptions{})
	must(t, err)
}

// case 87: a mount on the target cannot be replaced: old bytes stay on both
// sides, and no stage.
func TestPutOverMountedFile(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	base := t.TempDir()
	must(t, os.Mkdir(base+"/root", 0o755))
	must(t, os.WriteFile(base+"/outside", []byte("outside"), 0o600))
	must(t, os.WriteFile(base+"/root/f", []byte("content"), 0o600))
	if err := unix.Mount(base+"/outside", base+"/root/f", "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no bind mount: %v", err)
	}
	unmount := func() { unix.Unmount(base+"/root/f", unix.MNT_DETACH) }
	defer unmount()
	for _, p := range []Policy{volatile(), Compat()} {
		r, err := Open(base+"/root", p)
		must(t, err)
		defer r.Close()
		for _, d := range []Durability{DurabilityNone, DurabilityVolatile} {
			for _, missing := range []string{"nothing", "unnamed"} {
				s := hook(r, answers(map[string]error{missing: syscall.EOPNOTSUPP}))
				_, err := r.Put("f", []byte("x"), PutOptions{Durability: d})
				want(t, "Put", err, syscall.EBUSY)
				if Code(err) != "busy" || errors.Is(err, fs.ErrExist) {
					t.Errorf("code %q of %v", Code(err), err)
				}
				r.sys = s.system
			}
		}
		if p.Mounts == MountsStay {
			for _, verb := range []string{"ReadFile", "WriteFile", "Append", "Truncate", "Stat", "Lstat", "Receipt", "Chmod", "Remove", "MoveFrom"} {
				want(t, verb, verbs(r)[verb]("f"), ErrMount)
			}
		}
		noStage(t, base)
	}
	if got := content(t, base, "f"); got != "outside" {
		t.Errorf("mounted file holds %q", got)
	}
	unmount()
	if got := content(t, base, "f"); got != "content" {
		t.Errorf("file below holds %q", got)
	}
}
