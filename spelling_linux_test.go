package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// cases 1, 31, 33, 34: for every verb, under every policy, "in/", "in/." and
// "./in/" are one spelling: same answer, same tree afterwards.
func TestSlashHasOneMeaning(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat(), Extract()} {
		for _, resolver := range []string{"kernel", "walker"} {
			for _, name := range []string{"in", "dir", "f", "lk", "out", "missing", "empty", "dir/file", "in/file", "dangling"} {
				for verb := range verbs(nil) {
					var first, spelled string
					for _, spelling := range []string{"%s/", "%s//", "%s/.", "%s/./", "./%s/", ".//./%s/."} {
						spelling = fmt.Sprintf(spelling, name)
						got := spell(t, p, resolver, verb, spelling)
						if first == "" {
							first, spelled = got, spelling
						} else if got != first {
							t.Errorf("%s, links=%d: %s(%q) gives\n%s\nand %q\n%s", resolver, p.Links, verb, spelled, first, spelling, got)
						}
					}
				}
			}
		}
	}
}

// spell runs a verb on a name in a small fresh tree and tells what happened.
func spell(t *testing.T, p Policy, resolver, verb, name string) string {
	base := shm(t)
	defer discard(base)
	must(t, os.Mkdir(base+"/dir", 0o755))
	must(t, os.Mkdir(base+"/empty", 0o755))
	must(t, os.WriteFile(base+"/dir/file", nil, 0o644))
	must(t, os.WriteFile(base+"/f", []byte("content"), 0o644))
	for link, target := range map[string]string{"in": "dir", "lk": "f", "out": "../x", "dangling": "gone"} {
		must(t, os.Symlink(target, base+"/"+link))
	}
	r, err := Open(base, p)
	must(t, err)
	defer r.Close()
	if resolver == "walker" {
		r.beneath = nil
	}
	err = verbs(r)[verb](name)
	return Code(err) + "\n" + tree(t, base)
}

// tree lists all that a directory holds: type, mode, content or target, as far
// as the modes let one see it.
func tree(t *testing.T, dir string) string {
	var b strings.Builder
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			err = describeEntry(&b, dir+"/"+path, path, e)
		}
		if errors.Is(err, fs.ErrPermission) {
			fmt.Fprintf(&b, "%s is closed\n", path)
			return nil
		}
		return err
	}))
	return b.String()
}

func describeEntry(b *strings.Builder, path, name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "%s %v", name, info.Mode())
	switch info.Mode().Type() {
	case 0:
		data, err := os.ReadFile(path)
		fmt.Fprintf(b, " %d %q %v", info.Sys().(*syscall.Stat_t).Nlink, data, err == nil)
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		fmt.Fprintf(b, " %q %v", target, err == nil)
	}
	b.WriteByte('\n')
	return nil
}

// case 61: an empty name is refused by every verb, empty components are passed
// over, and what names the root is never taken for a file in it.
func TestEmptyNames(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat(), Extract()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			for verb, call := range verbs(r) {
				if err := call(""); !errors.Is(err, ErrName) && !errors.Is(err, ErrPolicy) {
					t.Errorf("%s(\"\"): %v", verb, err)
				}
				if err := call("/"); !errors.Is(err, ErrEscape) && !errors.Is(err, ErrPolicy) {
					t.Errorf("%s(\"/\"): %v", verb, err)
				}
			}
			for _, name := range []string{".", "./", ".//.", "dir/.."} {
				for _, verb := range []string{"ReadFile", "WriteFile", "Create", "Put", "Append", "Truncate", "Readlink", "LinkTo", "Symlink", "Mkdir"} {
					err := verbs(r)[verb](name)
					if err == nil || errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s(%q): %v", verb, name, err)
					}
				}
			}
			must(t, verbs(r)["ReadFile"]("dir//file"))
		})
	}
}

// case 24: a resolution whose text grows past PATH_MAX goes on component by
// component. The expansion of "a/a/…" is longer than any path the kernel takes;
// as many ".." lead back to the start, one more leads out.
func TestExpansionPastPathMax(t *testing.T) {
	const levels = 20
	long := strings.Repeat("d", 250)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		dir := ""
		for range levels {
			must(t, r.Mkdir(dir+long, 0o755))
			must(t, r.Symlink(long, dir+"a"))
			dir += "a/"
		}
		up := strings.Repeat("../", levels)
		if data, err := r.ReadFile(dir + up + "f"); string(data) != "content" {
			t.Errorf("there and back: %q, %v", data, err)
		}
		must(t, os.Symlink(strings.Repeat("a/", 10)+strings.Repeat("../", 10)+"f", base+"/root/fine"))
		must(t, os.Symlink(strings.Repeat("a/", 10)+strings.Repeat("../", 11)+"outside/secret", base+"/root/evil"))
		if data, err := r.ReadFile("fine"); string(data) != "content" {
			t.Errorf("by a link: %q, %v", data, err)
		}
		for _, name := range []string{dir + up + "../outside/secret", "evil", "evil/x"} {
			for _, verb := range []string{"ReadFile", "Stat", "WriteFile", "Put", "Append", "Chmod", "ReadDir", "OpenRoot"} {
				err := verbs(r)[verb](name)
				if !errors.Is(err, ErrEscape) && !(name == "evil" && errors.Is(err, ErrSymlink)) {
					t.Errorf("%s: %v", verb, err)
				}
			}
		}
		must(t, r.RemoveAll(long))
	})
}

// case 25: link bombs end in a loop error, within the budget of links.
func TestLinkBombs(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			root := base + "/root/"
			for i := range 40 {
				must(t, os.Symlink(fmt.Sprintf("l%d/l%d", i+1, i+1), fmt.Sprintf("%sl%d", root, i)))
			}
			must(t, os.Symlink("dir", root+"l40"))
			must(t, os.Symlink("pong", root+"ping"))
			must(t, os.Symlink("ping", root+"pong"))
			must(t, os.Symlink("self/self", root+"self"))
			for i := range 300 {
				must(t, os.Symlink(fmt.Sprintf("c%d", i+1), fmt.Sprintf("%sc%d", root, i)))
			}
			must(t, os.Symlink("dir", root+"c300"))
			for _, name := range []string{"l0/x", "ping/x", "self/x", "c0/x", "l0/l0/x"} {
				for verb, call := range verbs(r) {
					within(t, verb, func() {
						if err := call(name); Code(err) != "loop" {
							t.Errorf("%s(%q): %v", verb, name, err)
						}
					})
				}
			}
			for _, name := range []string{"l0", "ping", "self", "c0"} {
				for _, verb := range []string{"Open", "ReadFile", "Stat", "ReadDir", "OpenRoot", "Exists"} {
					if err := verbs(r)[verb](name); Code(err) != "loop" {
						t.Errorf("%s(%q): %v", verb, name, err)
					}
				}
			}
			must(t, verbs(r)["ReadDir"]("c270"))
		})
	}
}

// Every verb takes a path that is longer than one system call does.
func TestPathsPastPathMax(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		deep := strings.Repeat(strings.Repeat("x", 200)+"/", 25)
		must(t, r.MkdirAll(deep, 0o755))
		receipt, err := r.Put(deep+"f", []byte("deep"), PutOptions{Digest: true, Ancestry: true})
		must(t, err)
		if receipt.Path != deep+"f" || len(receipt.Ancestry) != 25 {
			t.Errorf("receipt has %d bytes of path, %d ancestors", len(receipt.Path), len(receipt.Ancestry))
		}
		must(t, r.Check(receipt))
		for _, verb := range []string{"Open", "OpenView", "ReadFile", "Stat", "Lstat", "Exists", "WriteFile", "Append", "Truncate", "Chmod",
			"Chtimes", "Lchown", "Receipt", "Put", "LinkFrom"} {
			if err := verbs(r)[verb](deep + "f"); err != nil {
				t.Errorf("%s: %v", verb, errors.Unwrap(err))
			}
			os.Remove(base + "/root/linked")
		}
		for _, verb := range []string{"ReadDir", "OpenRoot", "Sweep"} {
			must(t, verbs(r)[verb](deep))
		}
		must(t, r.Mkdir(deep+"m", 0o755))
		must(t, r.Symlink("f", deep+"s"))
		_, err = r.Readlink(deep + "s")
		must(t, err)
		must(t, r.Rename(deep+"f", deep+"g"))
		_, err = r.Move(deep+"g", deep+"h", MoveOptions{})
		must(t, err)
		must(t, r.Link(deep+"h", deep+"i"))
		must(t, r.Remove(deep+"i"))
		if data, err := r.ReadFile(deep + "../" + strings.Repeat("x", 200) + "/h"); string(data) != "x" {
			t.Errorf("by \"..\": %q, %v", data, err)
		}
		must(t, r.RemoveAll(strings.Repeat("x", 200)))
	})
}

// Directories that may be searched but not listed, or written to but not
// listed, work for every verb that needs no listing: as a user whom the modes bind.
func TestSearchOnlyDirectories(t *testing.T) {
	if !asNobody(t) {
		return
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/write", 0o300))
		must(t, os.Chmod(base+"/root/dir", 0o111))
		must(t, os.Chmod(base+"/root", 0o311))
		defer os.Chmod(base+"/root", 0o700)
		defer os.Chmod(base+"/root/dir", 0o700)
		defer os.Chmod(base+"/root/write", 0o700)
		for _, verb := range []string{"Open", "OpenView", "ReadFile", "Stat", "Lstat", "Exists", "WriteFile", "Append", "Truncate", "Chmod",
			"Chtimes", "Receipt"} {
			for _, name := range []string{"dir/file", "in/file", "in/../f"} {
				if err := verbs(r)[verb](name); err != nil {
					t.Errorf("%s(%q): %v", verb, name, err)
				}
			}
		}
		receipt, err := r.Put("write/new", []byte("1"), PutOptions{Durability: DurabilityDir, Ancestry: true})
		must(t, err)
		if receipt.Durability != DurabilityFile || !slices.Contains(receipt.Lost, "dir-sync") {
			t.Errorf("achieved %v, lost %v", receipt.Durability, receipt.Lost)
		}
		second, err := r.Put("write/new", []byte("2"), PutOptions{IfMatch: &receipt})
		must(t, err)
		moved, err := r.Move("write/new", "write/moved", MoveOptions{IfMatch: &second})
		must(t, err)
		must(t, r.RemoveIf("write/moved", moved))
		must(t, r.MkdirAll("write/a/b", 0o755))
		must(t, r.RemoveAll("write/a"))
		must(t, r.Symlink("../f", "write/s"))
		must(t, r.Remove("write/s"))
		sub, err := r.OpenRoot("write")
		must(t, err)
		must(t, verbs(sub)["Put"]("x"))
		must(t, sub.Remove("x"))
		must(t, sub.Close())
		again, err := Open(base+"/root", Workspace())
		must(t, err)
		must(t, again.Close())
		for _, dir := range []string{"dir", "write", "in", "."} {
			for _, verb := range []string{"ReadDir", "Open", "OpenView", "Sweep"} {
				changesLink := verb == "Sweep" && dir == "in"
				if err := verbs(r)[verb](dir); Code(err) != "permission" && !(changesLink && errors.Is(err, ErrSymlink)) {
					t.Errorf("%s(%q): %v", verb, dir, err)
				}
			}
		}
		must(t, verbs(r)["Put"]("write/kept"))
		if err := r.RemoveAll("write"); Code(err) != "permission" {
			t.Errorf("RemoveAll of what cannot be listed: %v", err)
		}
		if err := verbs(r)["Put"]("dir/new"); Code(err) != "permission" {
			t.Errorf("Put without the right to write: %v", err)
		}
		must(t, verbs(r)["ReadFile"]("write/kept"))
	})
}

// case 49: what Remove answers, and by which code.
func TestRemoveCodes(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/empty", 0o755))
		must(t, unix.Mkfifo(base+"/root/fifo", 0o644))
		for name, code := range map[string]string{"missing": "not-exist", "missing/x": "not-exist", "dir": "not-empty", "f/x": "not-dir",
			"f/": "not-dir", "in/": "symlink", ".": "name", "dir/..": "name", "": "name", "../outside": "escape", "out/secret": "escape",
			"abs/secret": "escape", "lk/x": "not-dir"} {
			if err := r.Remove(name); Code(err) != code {
				t.Errorf("Remove(%q): %v, want %s", name, err, code)
			}
		}
		for _, name := range []string{"empty", "in", "out", "lk", "fifo", "f"} {
			must(t, r.Remove(name))
		}
		must(t, verbs(r)["ReadFile"]("dir/file"))
		receipt, err := r.Receipt("dir/file")
		must(t, err)
		for _, other := range []identity.Receipt{{}, {Path: "dir/file"}} {
			want(t, "RemoveIf", r.RemoveIf("dir/file", other), ErrChanged)
		}
		must(t, r.RemoveIf("dir/file", receipt))
	})
}

// A dangling link is no missing directory: nothing is made where it leads, at
// the end of a path or on the way, by whatever chain of links.
func TestDanglingLinkIsNotMissing(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.Symlink("gone", base+"/root/dangling"))
			must(t, os.Symlink("dir/gone/deep", base+"/root/below"))
			must(t, os.Symlink("dangling/x", base+"/root/dir/chain"))
			must(t, os.Symlink("dir", base+"/root/chain"))
			before := tree(t, base+"/root")
			for _, name := range []string{"dangling", "dangling/", "dangling/x", "below", "below/y/z", "dir/chain", "chain/chain/z"} {
				want(t, "MkdirAll "+name, r.MkdirAll(name, 0o755), ErrSymlink)
				_, err := r.Put(name+"/file", nil, PutOptions{Parents: true})
				want(t, "Put in "+name, err, ErrSymlink)
			}
			if after := tree(t, base+"/root"); after != before {
				t.Errorf("made:\n%s\nwas\n%s", after, before)
			}
			must(t, r.MkdirAll("chain/new/sub", 0o755))
			_, err := r.Put("in/../in/more/sub/file", nil, PutOptions{Parents: true})
			must(t, err)
			for _, dir := range []string{"dir/new/sub", "dir/more/sub"} {
				if _, err := os.Stat(base + "/root/" + dir); err != nil {
					t.Errorf("beyond a link that leads somewhere: %v", err)
				}
			}
		})
	}
}

// A link whose target ends in a separator leads to a directory or nowhere: no
// file is made, emptied or appended to.
func TestLinkTargetWithSlash(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for link, target := range map[string]string{"l1": "f/", "l2": "f/.", "l3": "gone/", "l4": "gone/./.", "l5": "dir/", "l6": "l1/", "l7": "l4"} {
			must(t, os.Symlink(target, base+"/root/"+link))
		}
		before := tree(t, base+"/root")
		for _, link := range []string{"l1", "l2", "l3", "l4", "l5", "l6", "l7"} {
			for _, verb := range []string{"Create", "WriteFile", "Put", "Append"} {
				err := verbs(r)[verb](link)
				if code := Code(err); code != "is-dir" && code != "not-dir" && code != "not-exist" {
					t.Errorf("%s(%s): %v", verb, link, err)
				}
			}
		}
		if after := tree(t, base+"/root"); after != before {
			t.Errorf("changed:\n%s\nwas\n%s", after, before)
		}
	})
}
