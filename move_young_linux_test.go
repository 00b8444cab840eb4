package caproot

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that was written a moment ago is written again while it is moved, with as
// many bytes: its times may be the same after that, and nothing is lost all the same.
func TestMoveAcrossYoungFile(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for range 20 {
			overwritten(t, r, base+"/root", "f", "m/f")
		}
	})
}

// A link of a tree that is replaced by another is not lost: with the number of the one
// before it may look like that.
func TestMoveAcrossYoungLink(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for range 50 {
			must(t, os.Mkdir(base+"/root/tree", 0o700))
			must(t, os.Symlink("first ", base+"/root/tree/l"))
			s := hook(r, once("rename noreplace STAGE", func() {
				must(t, os.Remove(base+"/root/tree/l"))
				must(t, os.Symlink("second", base+"/root/tree/l"))
			}))
			_, err := r.Move("tree", "m/tree", MoveOptions{CrossDevice: true, Durability: DurabilityNone})
			r.sys = s.system
			want(t, "Move", err, ErrChanged)
			if text, _ := os.Readlink(base + "/root/tree/l"); text != "second" {
				t.Errorf("%q is left", text)
			}
			discard(base + "/root/tree")
			discard(base + "/root/m/tree")
		}
	})
}

// overwritten moves name, which is written again before the copy has its name.
func overwritten(t *testing.T, r *Root, dir, name, to string) {
	t.Helper()
	must(t, os.WriteFile(dir+"/"+name, []byte("first "), 0o600))
	s := hook(r, once("publish", func() { must(t, os.WriteFile(dir+"/"+name, []byte("second"), 0o600)) }))
	_, err := r.Move(name, to, MoveOptions{CrossDevice: true, Durability: DurabilityNone})
	r.sys = s.system
	want(t, name, err, ErrChanged)
	data, err := os.ReadFile(dir + "/" + name)
	if err != nil || string(data) != "second" {
		t.Errorf("%s: %q, %v", name, data, err)
	}
	must(t, os.Remove(dir+"/"+to))
}

// The same where times have whole seconds only.
func TestMoveAcrossCoarseTimes(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	dir, image := t.TempDir(), t.TempDir()+"/image"
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 4<<20))
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", "-I", "128", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no file system with inodes of 128 bytes: %v: %s", err, out)
		}
	}
	defer unix.Unmount(dir, 0)
	must(t, os.Mkdir(dir+"/m", 0o700))
	must(t, unix.Mount("tmpfs", dir+"/m", "tmpfs", 0, "size=1m"))
	defer unix.Unmount(dir+"/m", 0)
	r, err := Open(dir, Compat())
	must(t, err)
	defer r.Close()
	for range 2 {
		overwritten(t, r, dir, "f", "m/f")
	}
	must(t, os.Mkdir(dir+"/tree", 0o700))
	must(t, os.WriteFile(dir+"/tree/f", []byte("first "), 0o600))
	s := hook(r, once("publish", func() { must(t, os.WriteFile(dir+"/tree/f", []byte("second"), 0o600)) }))
	_, err = r.Move("tree", "m/tree", MoveOptions{CrossDevice: true})
	r.sys = s.system
	want(t, "tree", err, ErrChanged)
	if data, _ := os.ReadFile(dir + "/tree/f"); string(data) != "second" {
		t.Errorf("%q", data)
	}
}
