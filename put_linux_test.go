package caproot

import (
	"fmt"
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

// cases 36, 82: the mode is the one asked for, whatever the umask; a mode from a
// Stat may carry type bits.
func TestPutModeIsExact(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			defer umask(mask)()
			for i, mode := range []fs.FileMode{0o600, 0o644, 0o755, 0o400, 0o070, 0o640 | fs.ModeDir, fs.ModeDir} {
				name := fmt.Sprintf("p%d/q/f", i)
				receipt, err := r.Put(name, []byte("x"), PutOptions{Mode: mode, Parents: true, ParentMode: 0o750})
				must(t, err)
				wantMode(t, base, name, mode.Perm())
				wantMode(t, base, fmt.Sprintf("p%d", i), 0o750)
				wantMode(t, base, fmt.Sprintf("p%d/q", i), 0o750)
				if receipt.Mode != mode.Perm() {
					t.Errorf("receipt mode %v, want %v", receipt.Mode, mode.Perm())
				}
			}
			_, err := r.Put("plain/f", nil, PutOptions{Parents: true})
			must(t, err)
			wantMode(t, base, "plain", 0o700)
			wantMode(t, base, "plain/f", 0o600)
			_, err = r.Append("appended", []byte("x"), AppendOptions{Mode: 0o644})
			must(t, err)
			wantMode(t, base, "appended", 0o644)
		})
	}
}

// case 85: a file system that refuses chmod, or takes it and does nothing.
func TestPutWhereModesAreRefused(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s := hook(r, answers(map[string]error{"chmod": syscall.EPERM}))
		_, err := r.Put("made", nil, PutOptions{Mode: 0o600})
		must(t, err) // fits already
		if s.count("chmod") != 0 {
			t.Error("chmod although the mode fits")
		}
		_, err = r.Put("new", nil, PutOptions{Mode: 0o644})
		want(t, "mode that does not fit", err, syscall.EPERM)
		untouched(t, base)
		r.sys = deafChmod{s.system}
		_, err = r.Put("new", nil, PutOptions{Mode: 0o644})
		want(t, "mode not taken", err, ErrUnsupported)
		untouched(t, base)
	})
}

type deafChmod struct{ system }

func (deafChmod) chmod(handle, fs.FileMode) error { return nil }
