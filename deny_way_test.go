package caproot

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
)

// case 30: no verb makes a file of a name that leads to a denied one, which could
// then never come to be; directories may be made there.
func TestDenyWayIsNoFile(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		denies(t, p, []string{"a/b/secret", "dir/later/secret", "dir/file/secret"}, func(t *testing.T, sub *Root, base string) {
			before := seal(t, base+"/root")
			for _, verb := range []string{"Create", "WriteFile", "Put", "PutParents", "Append", "CopyInTo", "RenameTo", "MoveTo", "LinkTo", "Symlink"} {
				for _, name := range []string{"a", "A", "a/b", "dir/later", "dir/../a"} {
					err := verbs(sub)[verb](name)
					if name == "a/b" && verb != "PutParents" {
						want(t, verb+" "+name, err, fs.ErrNotExist)
						continue
					}
					want(t, verb+" "+name, err, ErrPolicy)
				}
			}
			if after := seal(t, base+"/root"); after != before {
				t.Errorf("changed:\n%s\nwas\n%s", after, before)
			}
			// A batch stages its other file, which where files have names touches the root.
			entries := listed(t, base+"/root")
			for _, name := range []string{"a", "A", "dir/later", "dir/../a"} {
				want(t, "Batch "+name, verbs(sub)["Batch"](name), ErrPolicy)
			}
			if after := listed(t, base+"/root"); !slices.Equal(after, entries) {
				t.Errorf("the root holds %q, not %q", after, entries)
			}
			want(t, "Put over a file on the way", verbs(sub)["Put"]("dir/file"), ErrPolicy)
			must(t, sub.WriteFile("dir/file", []byte("in place"), 0o600))
			_, err := sub.Append("dir/file", []byte("x"), AppendOptions{})
			must(t, err)
			must(t, sub.Mkdir("a", 0o700))
			must(t, sub.Mkdir("dir/later", 0o700))
			_, err = sub.Put("a/b/c", nil, PutOptions{Parents: true})
			must(t, err)
			want(t, "Put", verbs(sub)["Put"]("a/b/secret"), ErrPolicy)
			_, err = sub.ReadFile("dir/file")
			must(t, err)
		})
	}
}

// A file without a name is given none on the way to a denied one.
func TestDenyWayIsNoUnnamedFile(t *testing.T) {
	denies(t, Workspace(), []string{"a/secret"}, func(t *testing.T, sub *Root, base string) {
		f, err := sub.CreateUnnamed(".")
		if errors.Is(err, ErrUnsupported) {
			t.Skipf("no files without a name: %v", err)
		}
		must(t, err)
		defer f.Close()
		want(t, "NameUnnamed", sub.NameUnnamed(f, "a"), ErrPolicy)
		_, err = os.Lstat(base + "/root/a")
		want(t, "the name", err, fs.ErrNotExist)
	})
}
