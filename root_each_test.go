package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/caproot/caproot/identity"
)

// walkOnly hides the kernel's resolver from a Root.
type walkOnly struct{ system }

// eachResolver runs a test with a fresh tree and root under both resolvers:
//
//	outside/secret, and beside it root/ with dir/file, f, in -> dir,
//	out -> ../outside, abs -> the outside's absolute path, lk -> f
//
// The links are missing where the system makes none; see needsLinks.
func eachResolver(t *testing.T, p Policy, test func(t *testing.T, r *Root, base string)) {
	for _, resolver := range resolvers() {
		t.Run(resolver, func(t *testing.T) {
			base := t.TempDir()
			must(t, os.MkdirAll(base+"/outside", 0o755))
			must(t, os.MkdirAll(base+"/root/dir", 0o755))
			must(t, os.WriteFile(base+"/outside/secret", []byte("secret"), 0o644))
			must(t, os.WriteFile(base+"/root/dir/file", []byte("file"), 0o644))
			must(t, os.WriteFile(base+"/root/f", []byte("content"), 0o644))
			if makesLinks(t) {
				symlink(t, "dir", base+"/root/in")
				symlink(t, "../outside", base+"/root/out")
				symlink(t, base+"/outside", base+"/root/abs")
				symlink(t, "f", base+"/root/lk")
			}
			r, err := Open(base+"/root", p)
			must(t, err)
			t.Cleanup(func() { r.Close() })
			if resolver == "walker" {
				r.beneath, r.sys = nil, walkOnly{r.sys}
			} else if r.beneath == nil {
				t.Skip("no openat2 on this system")
			}
			before := seal(t, base+"/outside")
			fds := openFDs(t)
			test(t, r, base)
			if after := openFDs(t); after != fds {
				t.Errorf("descriptors: %d before, %d after", fds, after)
			}
			must(t, r.Close())
			if after := seal(t, base+"/outside"); after != before {
				t.Errorf("outside changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// seal writes down everything that must not change.
func seal(t *testing.T, dir string) string {
	var b strings.Builder
	must(t, filepath.Walk(dir, func(path string, i fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		b.WriteString(path + " " + i.Mode().String() + " " + i.ModTime().String() + changed(i))
		if i.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			b.Write(data)
			return err
		}
		return nil
	}))
	return b.String()
}

// cases 1, 6, 16: every verb refuses every spelling that leads outside.
func TestNoVerbLeavesTheRoot(t *testing.T) {
	names := []string{"../outside/secret", "dir/../../outside/secret", "out/secret", "abs/secret", "in/../out/secret",
		"out/new", "abs/new", "out/new/deeper", "/etc/passwd", "in/../../outside", "..", "../"}
	names = withoutLinks(t, names)
	for _, p := range []Policy{Workspace(), Compat(), Extract(), {Rights: AllRights}} {
		eachResolver(t, relaxed(p), func(t *testing.T, r *Root, base string) {
			for verb, call := range verbs(r) {
				for _, name := range names {
					err := call(name)
					if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
						t.Errorf("%s(%q) under %v: %v", verb, name, p.Links, err)
					}
				}
			}
		})
	}
}

// relaxed makes the zero policy usable on both resolvers.
func relaxed(p Policy) Policy {
	p.Bind, p.Containment = BindHandle, Walked
	p.MaxReadBytes, p.MaxWriteBytes = NoLimit, NoLimit
	return p
}

// case 1, 31, 34: a trailing separator asks for a directory, for all verbs alike.
func TestTrailingSeparator(t *testing.T) {
	needsLinks(t)
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for _, suffix := range []string{"/", "//", "/.", "/./"} {
			for verb, call := range verbs(r) {
				if verb == "MkdirAll" || verb == "Symlink" || strings.HasSuffix(verb, "To") || verb == "Mkdir" {
					continue
				}
				if err := call("out" + suffix); err == nil || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s(out%s): %v", verb, suffix, err)
				}
			}
			for _, verb := range []string{"Lstat", "Readlink", "Remove", "RemoveAll", "RemoveTree", "RenameFrom", "MoveFrom", "LinkFrom", "Lchown"} {
				want(t, verb+"(in"+suffix+")", verbs(r)[verb]("in"+suffix), ErrSymlink)
			}
			for _, verb := range []string{"Stat", "Open", "ReadDir", "OpenRoot", "Receipt", "MkdirAll"} {
				must(t, verbs(r)[verb]("in"+suffix))
			}
		}
		must(t, r.MkdirAll("a/b/", 0o755)) // case 33
	})
}

// case 175: names of the root itself.
func TestRootItselfIsRefused(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"", ".", "./", "dir/..", linked(t) + "/.."} {
			for _, verb := range []string{"Remove", "RemoveAll", "RemoveTree", "RenameFrom", "RenameTo", "MoveFrom", "Chmod", "Chtimes", "Put", "Symlink", "Lchown", "LinkTo"} {
				err := verbs(r)[verb](name)
				if err == nil || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s(%q): %v", verb, name, err)
				}
			}
		}
	})
}

// case 37, 38, 39: a FIFO or socket never blocks a caller.
func TestSpecialFilesAnswerAtOnce(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		mkfifo(t, base+"/root/fifo")
		for _, verb := range []string{"Open", "OpenView", "ReadFile", "WriteFile", "Create", "Put", "Append", "Truncate", "Chmod"} {
			start := time.Now()
			want(t, verb, verbs(r)[verb]("fifo"), ErrSpecial)
			if d := time.Since(start); d > 100*time.Millisecond {
				t.Errorf("%s took %v", verb, d)
			}
		}
	})
}

// case 27: a file with two names is read, not changed.
func TestHardlinkPolicy(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Link(base+"/root/f", base+"/root/hard"))
		must(t, verbs(r)["ReadFile"]("hard"))
		for _, verb := range []string{"WriteFile", "Create", "Append", "Truncate", "Chmod", "Chtimes"} {
			want(t, verb, verbs(r)[verb]("hard"), ErrHardlink)
		}
		must(t, verbs(r)["Put"]("hard"))
		if data, _ := os.ReadFile(base + "/root/f"); string(data) != "content" {
			t.Errorf("the other name has %q", data)
		}
	})
	eachResolver(t, Extract(), func(t *testing.T, r *Root, base string) {
		must(t, os.Link(base+"/root/f", base+"/root/hard"))
		for _, verb := range []string{"ReadFile", "Open", "Put", "MoveFrom", "LinkFrom"} {
			want(t, verb, verbs(r)[verb]("hard"), ErrHardlink)
		}
	})
}

func TestPutPublishesWhole(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		receipt, err := r.Put("new/deep/file", []byte("one"), PutOptions{Parents: true, Digest: true, Ancestry: true})
		must(t, err)
		if receipt.Path != "new/deep/file" || receipt.Published != identity.Created || len(receipt.Ancestry) != 2 || receipt.Size != 3 {
			t.Errorf("receipt %+v", receipt)
		}
		must(t, r.Check(receipt))
		_, err = r.Put("new/deep/file", nil, PutOptions{NoReplace: true})
		want(t, "NoReplace", err, fs.ErrExist)
		second, err := r.Put(linked(t)+"/../new/deep/file", []byte("two"), PutOptions{IfMatch: &receipt})
		must(t, err)
		if second.Path != "new/deep/file" || second.Published != swapped {
			t.Errorf("second receipt %+v", second)
		}
		want(t, "Check of the old receipt", r.Check(receipt), ErrChanged)
		_, err = r.Put("new/deep/file", []byte("three"), PutOptions{IfMatch: &receipt})
		want(t, "IfMatch", err, ErrChanged)
		want(t, "RemoveIf", r.RemoveIf("new/deep/file", receipt), ErrChanged)
		must(t, r.RemoveIf("new/deep/file", second))
		left, err := os.ReadDir(base + "/root/new/deep")
		must(t, err)
		if len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
	})
}

// case 102: two names of one file.
func TestMove(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/g", nil, 0o644))
		_, err := r.Move("f", "g", MoveOptions{})
		want(t, "no-replace", err, fs.ErrExist)
		receipt, err := r.Move("f", linked(t)+"/h", MoveOptions{})
		must(t, err)
		if receipt.Path != "dir/h" {
			t.Errorf("moved to %q", receipt.Path)
		}
		must(t, os.Link(base+"/root/g", base+"/root/g2"))
		_, err = r.Move("g", "g2", MoveOptions{Replace: true})
		must(t, err)
		if _, err := os.Lstat(base + "/root/g"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("source still there: %v", err)
		}
	})
}

// case 167, 168: a deep tree with links to outside is removed, the outside stays.
func TestRemoveAll(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		deep := "tree" + strings.Repeat("/d", 300)
		must(t, r.MkdirAll(deep, 0o755))
		if makesLinks(t) {
			symlink(t, base+"/outside", base+"/root/tree/link")
		}
		must(t, verbs(r)["Put"](deep+"/file"))
		must(t, r.RemoveAll("tree"))
		if ok, err := r.Exists("tree"); ok || err != nil {
			t.Errorf("still there: %v %v", ok, err)
		}
		if makesLinks(t) {
			must(t, r.RemoveAll("in"))
		}
		must(t, r.RemoveAll("missing"))
		if ok, _ := r.Exists("dir/file"); !ok {
			t.Error("RemoveAll of a link removed its target")
		}
	})
}

func TestFS(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/a/b", 0o755))
	must(t, os.WriteFile(base+"/a/b/c", []byte("c"), 0o644))
	r, err := Open(base, Workspace())
	must(t, err)
	defer r.Close()
	must(t, fstest.TestFS(r.FS(), "a/b/c"))
}

// A closed root refuses every verb.
func TestClosedRoot(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s, err := r.Stage("staged", PutOptions{})
		must(t, err)
		must(t, s.Abort())
		sub, err := r.OpenRoot(linked(t))
		must(t, err)
		must(t, sub.Close())
		for verb, call := range verbs(sub) {
			if err := call("x"); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
}

func TestMeetIsALattice(t *testing.T) {
	all := []Policy{{}, ReadOnly(), Workspace(), Extract(), Compat()}
	for _, p := range all {
		if !(Policy{}).Within(p) {
			t.Errorf("the zero policy is not within %+v", p)
		}
		for _, q := range all {
			m := p.Meet(q)
			if m != q.Meet(p) || !m.Within(p) || !m.Within(q) || m.Meet(m) != m {
				t.Errorf("meet of %+v and %+v is %+v", p, q, m)
			}
		}
	}
}
