package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

// hidden extends the tree of eachResolver by what a grant will deny:
//
//	.git/config, secret.env, x -> .git, deep/er/real/key, cfg -> deep/er/real
func hidden(t *testing.T, base string) {
	root := base + "/root"
	must(t, os.MkdirAll(root+"/.git/sub", 0o755))
	must(t, os.MkdirAll(root+"/deep/er/real", 0o755))
	for _, name := range []string{".git/config", "secret.env", "deep/er/real/key"} {
		must(t, os.WriteFile(root+"/"+name, []byte("denied"), 0o644))
	}
	if makesLinks(t) {
		symlink(t, ".git", root+"/x")
		symlink(t, "deep/er/real", root+"/cfg")
	}
}

// denies runs a test with a grant that denies names of hidden.
func denies(t *testing.T, p Policy, deny []string, test func(t *testing.T, sub *Root, base string)) {
	t.Helper()
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		hidden(t, base)
		sub, err := r.Grant(".", Grant{Policy: p, Deny: deny})
		must(t, err)
		defer sub.Close()
		test(t, sub, base)
	})
}

// refusesAll sees that every verb answers ErrPolicy to name and changes nothing
// below the denied directories.
func refusesAll(t *testing.T, sub *Root, base, name string) {
	t.Helper()
	before := seal(t, base+"/root/.git") + seal(t, base+"/root/deep") + seal(t, base+"/root/secret.env")
	for verb, call := range verbs(sub) {
		err := call(name)
		if (verb == "MkdirAll" || compound[verb]) && errors.Is(err, syscall.ENOTDIR) {
			continue // a file is in the way, which is all that it asks
		}
		if !errors.Is(err, ErrPolicy) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			t.Errorf("%s(%q): %v", verb, name, err)
		}
	}
	if after := seal(t, base+"/root/.git") + seal(t, base+"/root/deep") + seal(t, base+"/root/secret.env"); after != before {
		t.Errorf("%q changed:\n%s\nwas\n%s", name, after, before)
	}
}

// case 30: what is denied is the real destination, whatever the typed path.
func TestDenyByEveryName(t *testing.T) {
	needsLinks(t)
	for _, p := range []Policy{Workspace(), Compat()} {
		denies(t, p, []string{".git", "secret.env"}, func(t *testing.T, sub *Root, base string) {
			must(t, os.Link(base+"/root/secret.env", base+"/root/dir/alias"))
			must(t, os.Rename(base+"/root/deep", base+"/root/.git/deep"))
			must(t, os.Rename(base+"/root/.git/deep", base+"/root/deep"))
			for _, name := range []string{".git", ".git/config", ".git/new", ".git/sub/new", "x/config", "x/new", "dir/../.git/config",
				"./x/../.git/config", "in/../x/config", "secret.env", "dir/alias", ".GIT", ".GIT/new", ".g\u200cit/new", "SECRET.ENV",
				".git./new", ".git::$INDEX_ALLOCATION/new"} {
				refusesAll(t, sub, base, name)
			}
			must(t, verbs(sub)["ReadFile"]("dir/file"))
			must(t, verbs(sub)["Put"]("dir/new"))
		})
	}
}

// A name that does not exist yet is denied, in missing directories too, and
// nothing on the way to it can be taken away.
func TestDenyMissingName(t *testing.T) {
	needsLinks(t)
	for _, p := range []Policy{Workspace(), Compat()} {
		denies(t, p, []string{"dir/later", "a/b/c", "cfg/token"}, func(t *testing.T, sub *Root, base string) {
			for _, name := range []string{"dir/later", "in/later", "dir/LATER", "a/b/c", "cfg/token", "deep/er/real/token"} {
				for _, verb := range []string{"Put", "PutParents", "WriteFile", "Create", "Mkdir", "MkdirAll", "Symlink", "RenameTo", "MoveTo",
					"LinkTo", "Append"} {
					err := verbs(sub)[verb](name)
					if name == "a/b/c" && errors.Is(err, fs.ErrNotExist) {
						continue // its directories do not exist
					}
					want(t, verb+" "+name, err, ErrPolicy)
				}
			}
			want(t, "Put", verbs(sub)["PutParents"]("made/../dir/x/../later"), ErrPolicy)
			want(t, "MkdirAll", sub.MkdirAll("made/x/../../a/b/c/d", 0o755), ErrPolicy)
			if _, err := os.Lstat(base + "/root/made"); err == nil {
				t.Error("a refused call made directories")
			}
			if _, err := os.Lstat(base + "/root/a"); err == nil {
				t.Error("a refused Put made directories")
			}
			must(t, sub.MkdirAll("a/b", 0o755))
			want(t, "Put", verbs(sub)["Put"]("a/b/c"), ErrPolicy)
			must(t, verbs(sub)["Put"]("a/b/d"))
			for _, name := range []string{"dir", "a", "a/b", "cfg", "deep", "deep/er", "deep/er/real"} {
				for _, verb := range []string{"RemoveAll", "RenameFrom", "MoveFrom", "Remove"} {
					want(t, verb+" "+name, verbs(sub)[verb](name), ErrPolicy)
				}
			}
			must(t, sub.Rename("in", "moved")) // another link to it is not the way
			must(t, sub.Mkdir("mine", 0o755))
			want(t, "Move onto the way", sub.Rename("mine", "cfg"), ErrPolicy)
		})
	}
}

// A denied link is denied with what it leads to: who could change it could
// choose what its name leads to.
func TestDenyLink(t *testing.T) {
	needsLinks(t)
	denies(t, Compat(), []string{"x"}, func(t *testing.T, sub *Root, base string) {
		for _, name := range []string{"x", "x/config", ".git", ".git/config"} {
			refusesAll(t, sub, base, name)
		}
		must(t, os.Rename(base+"/root/.git", base+"/root/gone"))
		for verb, call := range verbs(sub) {
			want(t, verb+" of the link, dangling", call("x"), ErrPolicy)
		}
	})
}

// A file that got the number of a denied one after that was gone is not denied,
// where the file system proves it: ext4 gives a number back at once. case 68.
func TestDenyTellsSuccessor(t *testing.T) {
	base := t.TempDir()
	r, err := Open(base, Workspace())
	must(t, err)
	defer r.Close()
	for n := range 50 {
		must(t, os.WriteFile(base+"/env", nil, 0o600))
		sub, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{"env"}})
		must(t, err)
		must(t, os.Remove(base+"/env"))
		name := fmt.Sprintf("own%d", n)
		must(t, os.WriteFile(base+"/"+name, nil, 0o600))
		_, err = sub.ReadFile(name)
		if counter, ok := r.sys.(useCounter); ok && !counter.countsUses(r.dir) && errors.Is(err, ErrPolicy) {
			t.Skipf("the file system does not prove that %s is another file: it stays denied", name)
		}
		must(t, err)
		must(t, sub.Close())
	}
}

// A list of denied names is inherited, and shrinks nobody else's.
func TestDenyIsInherited(t *testing.T) {
	denies(t, Compat(), []string{"deep/er/real/key", "deep/er/later"}, func(t *testing.T, sub *Root, base string) {
		inner, err := sub.Grant("deep", Grant{Policy: Compat(), Deny: []string{"er/own"}})
		must(t, err)
		opened, err := inner.OpenRoot("er")
		must(t, err)
		for name, root := range map[string]*Root{"er/real/key": inner, "er/later": inner, "er/own": inner, "real/key": opened,
			"later": opened, "own": opened, "deep/er/later": sub} {
			want(t, name, verbs(root)["Put"](name), ErrPolicy)
		}
		must(t, verbs(sub)["Put"]("deep/er/own"))
		want(t, "moving the way there", opened.Rename("real", "elsewhere"), ErrPolicy)
		_, err = sub.Grant("deep/er/real/key", Grant{Policy: Compat()})
		want(t, "Grant of a denied name", err, ErrPolicy)
		must(t, opened.Close())
		must(t, inner.Close())
	})
}

// Listings show the name and nothing more.
func TestDenyInListing(t *testing.T) {
	denies(t, Workspace(), []string{".git"}, func(t *testing.T, sub *Root, base string) {
		entries, err := sub.ReadDir(".")
		must(t, err)
		for _, e := range entries {
			_, err := e.Info()
			if e.Name() == ".git" {
				want(t, "Info", err, ErrPolicy)
			} else {
				must(t, err)
			}
		}
		err = fs.WalkDir(sub.FS(), ".", func(path string, d fs.DirEntry, err error) error {
			if strings.HasPrefix(path, ".git/") {
				t.Errorf("walked to %s", path)
			}
			return nil
		})
		must(t, err)
		_, err = sub.Open(".")
		want(t, "a directory's descriptor", err, ErrPolicy)
		_, err = sub.File()
		want(t, "File", err, ErrPolicy)
	})
}

func TestDenyRefusesSpellings(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		symlink(t, ".", base+"/root/self")
		for name, cause := range map[string]error{"": ErrName, ".": ErrName, "self": ErrName, "dir/..": ErrName, "missing/../x": ErrName,
			"a\x00b": ErrName, "/etc": ErrEscape, "..": ErrEscape, "../root/f": ErrEscape, "dir/../../root/f": ErrEscape, "out/secret": nil, "loop": nil} {
			sub, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{name}})
			if cause != nil {
				want(t, name, err, cause)
				continue
			}
			must(t, err)
			must(t, sub.Close())
		}
	})
}

// The list is read when the grant is made.
func TestGrantIsASnapshot(t *testing.T) {
	deny, budget := []string{".git"}, &Budget{Bytes: 10, Files: 10}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		hidden(t, base)
		deny[0], budget.Bytes = ".git", 10
		sub, err := r.Grant(".", Grant{Policy: Workspace(), Deny: deny, Budget: budget})
		must(t, err)
		deny[0], budget.Bytes = "other", NoLimit
		want(t, "Put", verbs(sub)["Put"](".git/new"), ErrPolicy)
		_, err = sub.Put("big", make([]byte, 11), PutOptions{})
		want(t, "Put", err, ErrTooLarge)
		must(t, sub.Close())
	})
}

// Under KernelAtomic the kernel confirms what the walk found, and a receipt
// says so.
func TestDenyUnderKernelAtomic(t *testing.T) {
	p := Workspace()
	p.Containment = KernelAtomic
	if !kernelResolves() {
		t.Skip("no openat2 on this system")
	}
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/a/b", 0o755))
	r, err := Open(base, p)
	must(t, err)
	defer r.Close()
	sub, err := r.Grant(".", Grant{Policy: p, Deny: []string{"a/secret"}})
	must(t, err)
	defer sub.Close()
	receipt, err := sub.Put("a/b/f", []byte("x"), PutOptions{})
	must(t, err)
	if receipt.Containment != KernelAtomic {
		t.Errorf("containment %v", receipt.Containment)
	}
	want(t, "Put", verbs(sub)["Put"]("a/secret"), ErrPolicy)
	_, err = sub.ReadFile("a/b/f")
	must(t, err)
	var none identity.Receipt
	want(t, "RemoveIf", sub.RemoveIf("a/secret", none), ErrPolicy)
}
