package caproot

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// overlay mounts layers of which the lower one has what make makes there, and
// returns where they are merged.
func overlay(t *testing.T, options string, make func(lower string)) (merged string) {
	t.Helper()
	layers := t.TempDir()
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, ""); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(layers, unix.MNT_DETACH)) })
	for _, dir := range []string{"lower", "upper", "work", "merged"} {
		must(t, os.Mkdir(layers+"/"+dir, 0o755))
	}
	make(layers + "/lower")
	options += "lowerdir=" + layers + "/lower,upperdir=" + layers + "/upper,workdir=" + layers + "/work"
	if err := unix.Mount("overlay", layers+"/merged", "overlay", 0, options); err != nil {
		t.Skipf("no overlay: %v", err)
	}
	return layers + "/merged"
}

// A denied object of a lower layer is the same one when it is copied up, though
// its birth time is new.
func TestDenyHoldsAfterCopyUp(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	policy := Workspace()
	policy.Hardlinks, policy.Mounts = HardlinksAllow, MountsCross
	for name, copyUp := range map[string]struct {
		options string
		change  func(t *testing.T, dir string) // by the owner of the files
		way     string                         // to what is denied, by another name
	}{
		"moved": {"", func(t *testing.T, dir string) { must(t, os.Rename(dir+"/key", dir+"/key~")) }, "key~"},
		"written behind a hard link": {"index=on,", func(t *testing.T, dir string) {
			f, err := os.OpenFile(dir+"/key", os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			defer f.Close()
			_, err = f.WriteString("more")
			must(t, err)
		}, "alias"},
		"changed behind a bind mount": {"", func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/keys/new", nil, 0o600)) }, "mnt/a"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := overlay(t, copyUp.options, func(lower string) {
				must(t, os.WriteFile(lower+"/key", []byte("secret"), 0o644))
				if copyUp.options != "" { // without an index a copy leaves the other names behind, under another number
					must(t, os.Link(lower+"/key", lower+"/alias"))
				}
				must(t, os.Mkdir(lower+"/keys", 0o755))
				must(t, os.WriteFile(lower+"/keys/a", []byte("secret"), 0o644))
				must(t, os.Mkdir(lower+"/mnt", 0o755))
			})
			bind(t, dir+"/keys", dir+"/mnt")
			r, err := Open(dir, policy)
			must(t, err)
			defer r.Close()
			sub, err := r.Grant(".", Grant{Policy: policy, Deny: []string{"key", "keys"}})
			must(t, err)
			defer sub.Close()
			copyUp.change(t, dir)
			all := verbs(sub)
			for _, verb := range []string{"ReadFile", "OpenView", "Stat", "Receipt", "Chmod", "Truncate", "Put", "RenameFrom", "LinkFrom", "Remove"} {
				want(t, verb, all[verb](copyUp.way), ErrPolicy)
			}
		})
	}
}
