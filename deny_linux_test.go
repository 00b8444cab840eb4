package caproot

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory that is moved stays denied, and so does what a mount shows.
func TestDenyByIdentity(t *testing.T) {
	denies(t, Compat(), []string{".git", "deep/er/real/key"}, func(t *testing.T, sub *Root, base string) {
		must(t, os.Rename(base+"/root/.git", base+"/root/dir/harmless"))
		want(t, "moved", verbs(sub)["ReadFile"]("dir/harmless/config"), ErrPolicy)
		want(t, "moved", verbs(sub)["Put"]("dir/harmless/new"), ErrPolicy)
		want(t, "RemoveAll above", sub.RemoveAll("dir"), ErrPolicy)
		if data, _ := os.ReadFile(base + "/root/dir/harmless/config"); string(data) != "denied" {
			t.Errorf("RemoveAll removed from it: %q", data)
		}
		must(t, os.MkdirAll(base+"/root/dir/mnt", 0o755))
		if err := unix.Mount(base+"/root/dir/harmless", base+"/root/dir/mnt", "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no bind mount: %v", err)
		}
		defer unix.Unmount(base+"/root/dir/mnt", unix.MNT_DETACH)
		want(t, "bind mount", verbs(sub)["ReadFile"]("dir/mnt/config"), ErrPolicy)
		want(t, "bind mount", verbs(sub)["ReadDir"]("dir/mnt"), ErrPolicy)
	})
}

// The way to a missing denied name is known by identity too.
func TestDenyMissingNameThroughMount(t *testing.T) {
	denies(t, Compat(), []string{"dir/later"}, func(t *testing.T, sub *Root, base string) {
		must(t, os.MkdirAll(base+"/root/mnt", 0o755))
		if err := unix.Mount(base+"/root/dir", base+"/root/mnt", "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no bind mount: %v", err)
		}
		defer unix.Unmount(base+"/root/mnt", unix.MNT_DETACH)
		want(t, "Put", verbs(sub)["Put"]("mnt/later"), ErrPolicy)
		must(t, verbs(sub)["Put"]("mnt/other"))
	})
}

// A grant below a directory that was denied by name, or that a mount shows,
// inherits what is below it.
func TestDenyIsInheritedByName(t *testing.T) {
	denies(t, Compat(), []string{"dir/later/x"}, func(t *testing.T, sub *Root, base string) {
		must(t, sub.Mkdir("dir/later", 0o755))
		ways := []string{"dir/later"}
		must(t, os.Mkdir(base+"/root/mnt", 0o755))
		if err := unix.Mount(base+"/root/dir", base+"/root/mnt", "", unix.MS_BIND, ""); err == nil {
			defer unix.Unmount(base+"/root/mnt", unix.MNT_DETACH)
			ways = append(ways, "mnt/later")
		}
		for _, way := range ways {
			for _, deny := range [][]string{nil, {"own"}} {
				inner, err := sub.Grant(way, Grant{Policy: Compat(), Deny: deny})
				must(t, err)
				want(t, way, verbs(inner)["Put"]("x"), ErrPolicy)
				must(t, verbs(inner)["Put"]("y"))
				must(t, inner.Close())
			}
		}
	})
}

// Where names say one thing and the object another, both hold.
func TestDenyHoldsByNameAndByObject(t *testing.T) {
	denies(t, Compat(), []string{"m/later/x", "dir/later/z"}, func(t *testing.T, sub *Root, base string) {
		must(t, os.Mkdir(base+"/root/m", 0o755))
		if err := unix.Mount(base+"/root/dir", base+"/root/m", "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no bind mount: %v", err)
		}
		defer unix.Unmount(base+"/root/m", unix.MNT_DETACH)
		must(t, sub.Mkdir("m/later", 0o755))
		inner, err := sub.Grant("m/later", Grant{Policy: Compat(), Deny: []string{"own"}})
		must(t, err)
		for name, root := range map[string]*Root{"m/later/x": sub, "m/later/z": sub, "x": inner, "z": inner, "own": inner} {
			want(t, name, verbs(root)["Put"](name), ErrPolicy)
		}
		must(t, inner.Close())
	})
}
