package caproot

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func wantOwner(t *testing.T, base string, uid, gid int) {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Lstat(base+"/root/f", &st))
	if int(st.Uid) != uid || int(st.Gid) != gid {
		t.Errorf("owner %d:%d, want %d:%d", st.Uid, st.Gid, uid, gid)
	}
}

// case 90: the owner is kept, or its loss is reported and grants nobody more.
func TestPutKeepsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	p := Workspace()
	p.Modes |= fs.ModeSetuid
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, os.Chown(base+"/root/f", 1000, 1001))
		must(t, os.Chmod(base+"/root/f", 0o764|fs.ModeSetuid))
		receipt, err := r.Put("f", []byte("x"), PutOptions{})
		must(t, err)
		wantOwner(t, base, 1000, 1001)
		wantMode(t, base, "f", 0o764|fs.ModeSetuid)
		if receipt.Lost != nil {
			t.Errorf("lost %q", receipt.Lost)
		}
		hook(r, answers(map[string]error{"chown": syscall.EPERM}))
		receipt, err = r.Put("f", []byte("x"), PutOptions{})
		must(t, err)
		wantOwner(t, base, os.Getuid(), os.Getgid())
		wantMode(t, base, "f", 0o744) // no setuid; another group gets what others had
		if strings.Join(receipt.Lost, " ") != "owner" {
			t.Errorf("lost %q", receipt.Lost)
		}
		must(t, os.Chown(base+"/root/f", 1000, 1001))
		_, err = r.Put("f", []byte("x"), PutOptions{Mode: 0o750})
		must(t, err)
		wantMode(t, base, "f", 0o750) // an explicit mode stays exact
	})
}

// The group can be kept when the owner cannot.
func TestPutKeepsGroupAlone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Chown(base+"/root/f", 1000, 1001))
		must(t, os.Chmod(base+"/root/f", 0o660))
		calls := 0
		hook(r, func(event string) error {
			if event == "chown file" {
				if calls++; calls == 1 {
					return syscall.EPERM
				}
			}
			return nil
		})
		receipt, err := r.Put("f", []byte("x"), PutOptions{})
		must(t, err)
		wantOwner(t, base, os.Getuid(), 1001)
		wantMode(t, base, "f", 0o660)
		if strings.Join(receipt.Lost, " ") != "owner" {
			t.Errorf("lost %q", receipt.Lost)
		}
	})
}
