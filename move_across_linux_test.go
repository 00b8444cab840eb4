package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// eachDevice has a tmpfs at the name m of the root, so that a move there is one
// to another file system.
func eachDevice(t *testing.T, options string, test func(t *testing.T, r *Root, base string)) {
	t.Helper()
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/m", 0o755))
		if err := unix.Mount("tmpfs", base+"/root/m", "tmpfs", 0, options); err != nil {
			t.Skipf("no mount: %v", err)
		}
		defer unix.Unmount(base+"/root/m", unix.MNT_DETACH)
		test(t, r, base)
		noStageIn(t, base+"/root/m")
		noStage(t, base)
	})
}

// cases 46, 48: files and links keep what they are.
func TestMoveAcross(t *testing.T) {
	across := MoveOptions{CrossDevice: true}
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		_, err := r.Move("f", "m/f", MoveOptions{})
		want(t, "without CrossDevice", err, syscall.EXDEV)
		stamp := time.Unix(1e9, 7)
		must(t, os.Chmod(base+"/root/f", 0o604|fs.ModeSetuid))
		must(t, os.Chtimes(base+"/root/f", stamp, stamp))
		before, err := r.Receipt("f")
		must(t, err)
		receipt, err := r.Move("f", "m/f", MoveOptions{CrossDevice: true, IfMatch: &before, Durability: DurabilityDir})
		must(t, err)
		must(t, r.Check(receipt))
		if receipt.Op != "move" || receipt.Path != "m/f" || receipt.Published != identity.Created || receipt.Mode != 0o604|fs.ModeSetuid ||
			!receipt.ModTime.Equal(stamp) || receipt.Durability != DurabilityDir || content(t, base, "m/f") != "content" {
			t.Errorf("%+v", receipt)
		}
		gone(t, base+"/root/f")

		must(t, os.Symlink("gone", base+"/root/dangling"))
		receipt, err = r.Move("dangling", "m/dangling", across)
		must(t, err)
		if target, _ := os.Readlink(base + "/root/m/dangling"); target != "gone" || receipt.Path != "m/dangling" {
			t.Errorf("%q, %+v", target, receipt)
		}
		gone(t, base+"/root/dangling")

		must(t, os.WriteFile(base+"/root/f", []byte("second"), 0o600))
		must(t, os.Symlink("second", base+"/root/dangling"))
		for _, name := range []string{"f", "dangling"} {
			_, err = r.Move(name, "m/"+name, across)
			want(t, "no-replace "+name, err, fs.ErrExist)
			_, err = r.Move(name, "m/"+name, MoveOptions{CrossDevice: true, Replace: true})
			must(t, err)
			gone(t, base+"/root/"+name)
		}
		if target, _ := os.Readlink(base + "/root/m/dangling"); target != "second" || content(t, base, "m/f") != "second" {
			t.Error("not replaced")
		}
		must(t, syscall.Mkfifo(base+"/root/fifo", 0o600))
		_, err = r.Move("fifo", "m/fifo", across)
		want(t, "fifo", err, ErrSpecial)
	})
}

// case 45: a tree with two names of one file, links and modes.
func TestMoveTreeAcross(t *testing.T) {
	across := MoveOptions{CrossDevice: true}
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		grow := func() {
			must(t, os.MkdirAll(base+"/root/tree/sub/empty", 0o755))
			must(t, os.WriteFile(base+"/root/tree/a", []byte("a"), 0o644))
			must(t, os.Link(base+"/root/tree/a", base+"/root/tree/sub/b"))
			must(t, os.Symlink("../../outside", base+"/root/tree/sub/link"))
			must(t, os.Chmod(base+"/root/tree/sub", 0o751))
			must(t, os.Chtimes(base+"/root/tree/sub", time.Unix(1e9, 0), time.Unix(1e9, 0)))
		}
		grow()
		receipt, err := r.Move("tree", "m/tree", across)
		must(t, err)
		must(t, r.Check(receipt))
		gone(t, base+"/root/tree")
		a, err := os.Stat(base + "/root/m/tree/a")
		must(t, err)
		b, err := os.Stat(base + "/root/m/tree/sub/b")
		must(t, err)
		sub, err := os.Stat(base + "/root/m/tree/sub")
		must(t, err)
		link, _ := os.Readlink(base + "/root/m/tree/sub/link")
		if !os.SameFile(a, b) || sub.Mode().Perm() != 0o751 || !sub.ModTime().Equal(time.Unix(1e9, 0)) || link != "../../outside" {
			t.Errorf("%v %v %q", sub.Mode(), sub.ModTime(), link)
		}
		grow()
		_, err = r.Move("tree", "m/tree", MoveOptions{CrossDevice: true, Replace: true})
		want(t, "a directory is not replaced", err, fs.ErrExist)
		must(t, r.RemoveAll("m/tree"))

		// What changed after it was copied stays, and the rest goes.
		for what, change := range map[string]func(){
			"a new file":  func() { os.WriteFile(base+"/root/tree/sub/new", nil, 0o600) },
			"a new name":  func() { os.Link(base+"/root/tree/a", base+"/root/elsewhere") },
			"new content": func() { os.WriteFile(base+"/root/tree/a", []byte("b"), 0o600) },
			"a new mode":  func() { os.Chmod(base+"/root/tree/a", 0o600) },
			"a hidden change": func() {
				st, _ := os.Stat(base + "/root/tree/a")
				os.WriteFile(base+"/root/tree/a", []byte("b"), 0o600)
				os.Chtimes(base+"/root/tree/a", st.ModTime(), st.ModTime())
			},
			"another object": func() { os.Remove(base + "/root/tree/a"); os.WriteFile(base+"/root/tree/a", []byte("a"), 0o600) },
			"another link":   func() { os.Remove(base + "/root/tree/sub/link"); os.Symlink("x", base+"/root/tree/sub/link") },
		} {
			s := hook(r, once("rename noreplace STAGE tree", change))
			receipt, err := r.Move("tree", "m/tree", across)
			r.sys = s.system
			want(t, what, err, ErrChanged)
			if receipt.Published != identity.Created {
				t.Errorf("%s: %+v", what, receipt)
			}
			if _, err := os.Lstat(base + "/root/tree"); err != nil {
				t.Errorf("%s: nothing is left: %v", what, err)
			}
			gone(t, base+"/root/tree/sub/empty")
			must(t, r.RemoveAll("m/tree"))
			must(t, r.RemoveAll("tree"))
			must(t, r.RemoveAll("elsewhere"))
			grow()
		}
		must(t, syscall.Mkfifo(base+"/root/tree/sub/fifo", 0o600))
		_, err = r.Move("tree", "m/tree", across)
		want(t, "a special file", err, ErrSpecial)
		gone(t, base+"/root/m/tree")
		if _, err := os.Lstat(base + "/root/tree/sub/b"); err != nil {
			t.Error(err)
		}
	})
}

// case 94: no room on the other side leaves everything where it was.
func TestMoveAcrossFullDisk(t *testing.T) {
	eachDevice(t, "size=64k", func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/tree", 0o755))
		must(t, os.WriteFile(base+"/root/tree/small", nil, 0o600))
		must(t, os.WriteFile(base+"/root/tree/big", make([]byte, 200<<10), 0o600))
		for _, name := range []string{"tree", "tree/big"} {
			_, err := r.Move(name, "m/to", MoveOptions{CrossDevice: true})
			want(t, name, err, syscall.ENOSPC)
			gone(t, base+"/root/m/to")
		}
		if entries, _ := os.ReadDir(base + "/root/tree"); len(entries) != 2 {
			t.Errorf("%v", entries)
		}
	})
}

// heldSomewhere tells whether a file below dir has the content.
func heldSomewhere(t *testing.T, dir, content string) (held bool) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || held {
			return err
		}
		data, err := os.ReadFile(path)
		held = string(data) == content
		return err
	}))
	return held
}

// Every window of a move to another file system: the outside is sealed, and the
// content has a name unless the attacker took it away.
func TestMoveAcrossWindows(t *testing.T) {
	for attack := range attacks("") {
		for n := 1; n < 200; n++ {
			more := false
			eachDevice(t, "size=1m", func(t *testing.T, r *Root, base string) {
				taken := false
				w := &window{system: r.sys, kernel: r.beneath, left: n, attack: func() {
					before := heldSomewhere(t, base, "file")
					attacks(base)[attack]()
					taken = before && !heldSomewhere(t, base, "file")
				}}
				r.sys = w
				if r.beneath != nil {
					r.beneath = w
				}
				r.Move("dir", "m/dir", MoveOptions{CrossDevice: true})
				more = more || w.left <= 0 && n < 60
				r.sys, r.beneath = w.system, w.kernel
				if data, rerr := r.ReadFile("m/dir/file"); rerr == nil && string(data) == "secret" {
					t.Errorf("%s, window %d: moved what is outside", attack, n)
				}
				if !taken && !heldSomewhere(t, base, "file") {
					t.Errorf("%s, window %d: the content is lost", attack, n)
				}
			})
			if !more {
				break
			}
		}
	}
}

// A link that has the new name is not followed: it is replaced, as by a move within
// one file system, or stands in the way.
func TestMoveAcrossOverLink(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, target := range []string{"victim", "missing"} {
			must(t, os.WriteFile(base+"/root/f", []byte("moved"), 0o600))
			must(t, os.Chmod(base+"/root/f", 0o600))
			must(t, os.WriteFile(base+"/root/m/victim", []byte("victim"), 0o600))
			must(t, os.Symlink(target, base+"/root/m/link"))
			_, err := r.Move("f", "m/link", MoveOptions{CrossDevice: true})
			want(t, "without Replace", err, fs.ErrExist)
			receipt, err := r.Move("f", "m/link", MoveOptions{CrossDevice: true, Replace: true})
			must(t, err)
			info, err := os.Lstat(base + "/root/m/link")
			must(t, err)
			if receipt.Path != "m/link" || info.Mode() != 0o600 || content(t, base, "m/link") != "moved" || content(t, base, "m/victim") != "victim" {
				t.Errorf("%s: %+v, %v", target, receipt, info.Mode())
			}
			gone(t, base+"/root/f")
			gone(t, base+"/root/m/missing")
			must(t, os.Remove(base+"/root/m/link"))
		}
	})
}

// A mount point cannot go from its name, so nothing is copied.
func TestMoveAcrossOfMountPoint(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/n", 0o755))
		must(t, unix.Mount("tmpfs", base+"/root/n", "tmpfs", 0, "size=1m"))
		defer unix.Unmount(base+"/root/n", unix.MNT_DETACH)
		must(t, os.WriteFile(base+"/root/m/in", []byte("in"), 0o600))
		bind(t, base+"/root/m/in", base+"/root/f")
		for name, to := range map[string]string{"n": "m/to", "f": "m/to"} {
			receipt, err := r.Move(name, to, MoveOptions{CrossDevice: true})
			want(t, name, err, ErrMount)
			if receipt.Published != identity.Unpublished {
				t.Errorf("%s to %s: %+v", name, to, receipt)
			}
			gone(t, base+"/root/"+to)
		}
	})
}

// Owner and times of a symbolic link go with it.
func TestMoveAcrossKeepsLinks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives links away")
	}
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		stamp := unix.NsecToTimespec(1e18 + 7)
		for _, name := range []string{"top", "dir/deep"} {
			must(t, os.Symlink("gone", base+"/root/"+name))
			must(t, os.Lchown(base+"/root/"+name, 1000, 1001))
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, base+"/root/"+name, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW))
		}
		for _, name := range []string{"top", "dir"} {
			_, err := r.Move(name, "m/"+name, MoveOptions{CrossDevice: true})
			must(t, err)
		}
		for _, name := range []string{"top", "dir/deep"} {
			var st unix.Stat_t
			must(t, unix.Lstat(base+"/root/m/"+name, &st))
			if st.Uid != 1000 || st.Gid != 1001 || st.Mtim != stamp {
				t.Errorf("%s: %d:%d, %v", name, st.Uid, st.Gid, st.Mtim)
			}
		}
	})
}

// A move takes along what a rename would have: stages too.
func TestMoveAcrossTakesStagesAlong(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/m", 0o755))
		if err := unix.Mount("tmpfs", base+"/root/m", "tmpfs", 0, "size=4m"); err != nil {
			t.Skipf("no mount: %v", err)
		}
		defer unix.Unmount(base+"/root/m", unix.MNT_DETACH)
		kept := markedPrefix + "1-none-" + strings.Repeat("A", 26)
		must(t, os.WriteFile(base+"/root/dir/"+deadStage, []byte("half"), 0o600))
		must(t, os.WriteFile(base+"/root/dir/"+kept, []byte("the only copy"), 0o600))
		_, err := r.Move("dir", "m/dir", MoveOptions{CrossDevice: true})
		must(t, err)
		gone(t, base+"/root/dir")
		if content(t, base, "m/dir/"+deadStage) != "half" || content(t, base, "m/dir/"+kept) != "the only copy" || content(t, base, "m/dir/file") != "file" {
			t.Error("content")
		}
		n, err := r.Sweep("m/dir")
		must(t, err)
		if n != 1 || content(t, base, "m/dir/"+kept) != "the only copy" {
			t.Errorf("swept %d", n)
		}
	})
}

// A directory has no place in itself, on whatever file system.
func TestMoveAcrossIntoItself(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/m/tree", 0o755))
		must(t, os.WriteFile(base+"/root/m/tree/f", []byte("f"), 0o600))
		must(t, os.Mkdir(base+"/root/m/tree/mount", 0o755))
		must(t, unix.Mount("tmpfs", base+"/root/m/tree/mount", "tmpfs", 0, "size=1m"))
		defer unix.Unmount(base+"/root/m/tree/mount", unix.MNT_DETACH)
		_, err := r.Move("m/tree", "m/tree/mount/new", MoveOptions{CrossDevice: true})
		want(t, "Move", err, syscall.EINVAL)
		want(t, "Move", err, ErrName)
		if entries, _ := os.ReadDir(base + "/root/m/tree/mount"); len(entries) != 0 || content(t, base, "m/tree/f") != "f" {
			t.Errorf("%v", entries)
		}
	})
}
