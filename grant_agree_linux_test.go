package caproot

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lookups are verbs that look a name up, each by what it can be told to do.
var lookups = []struct {
	verb string
	run  func(r *Root, name string) error
}{
	{"Stat", func(r *Root, n string) error { return second(r.Stat(n)) }},
	{"Lstat", func(r *Root, n string) error { return second(r.Lstat(n)) }},
	{"Exists", func(r *Root, n string) error {
		ok, err := r.Exists(n)
		if err == nil && !ok {
			return syscall.ENOENT
		}
		return err
	}},
	{"Readlink", func(r *Root, n string) error { return second(r.Readlink(n)) }},
	{"ReadFile", func(r *Root, n string) error { return second(r.ReadFile(n)) }},
	{"ReadDir", func(r *Root, n string) error { return second(r.ReadDir(n)) }},
	{"Receipt", func(r *Root, n string) error { return second(r.Receipt(n)) }},
	{"Target", func(r *Root, n string) error { return second(r.Target(n)) }},
	{"OpenRoot", func(r *Root, n string) error {
		sub, err := r.OpenRoot(n)
		if err == nil {
			sub.Close()
		}
		return err
	}},
	{"Grant", func(r *Root, n string) error {
		sub, err := r.Grant(n, Grant{Policy: r.Policy()})
		if err == nil {
			sub.Close()
		}
		return err
	}},
	{"OpenView for reading", viewing(os.O_RDONLY)},
	{"OpenView for reading, O_CREATE", viewing(os.O_RDONLY | os.O_CREATE)},
	{"OpenView for writing", viewing(os.O_RDWR)},
	{"OpenView for writing, O_CREATE", viewing(os.O_RDWR | os.O_CREATE)},
	{"OpenView for writing, O_TRUNC", viewing(os.O_WRONLY | os.O_TRUNC)},
	{"OpenView for writing, O_EXCL", viewing(os.O_RDWR | os.O_CREATE | os.O_EXCL)},
	{"OpenView for reading, O_TRUNC", viewing(os.O_RDONLY | os.O_TRUNC)},
	{"OpenView O_CREATE O_DIRECTORY", viewing(os.O_RDONLY | os.O_CREATE | syscall.O_DIRECTORY)},
	{"WriteFile", func(r *Root, n string) error { return r.WriteFile(n, []byte("w"), 0o644) }},
	{"Put", func(r *Root, n string) error {
		return second(r.Put(n, []byte("p"), PutOptions{Durability: DurabilityNone}))
	}},
	{"Put with parents", func(r *Root, n string) error {
		return second(r.Put(n, nil, PutOptions{Parents: true, Durability: DurabilityNone}))
	}},
	{"Mkdir", func(r *Root, n string) error { return r.Mkdir(n, 0o755) }},
	{"MkdirAll", func(r *Root, n string) error { return r.MkdirAll(n, 0o755) }},
	{"Remove", func(r *Root, n string) error { return r.Remove(n) }},
	{"RemoveAll", func(r *Root, n string) error { return r.RemoveAll(n) }},
	{"Rename", func(r *Root, n string) error { return r.Rename(n, "renamed") }},
	{"Rename to", func(r *Root, n string) error { return r.Rename("file", n) }},
	{"Link", func(r *Root, n string) error { return r.Link(n, "linked") }},
	{"Symlink", func(r *Root, n string) error { return r.Symlink("file", n) }},
	{"Lexists", func(r *Root, n string) error { return second(r.Lexists(n)) }},
	{"MkdirTemp", func(r *Root, n string) error { return second(r.MkdirTemp(n, "t")) }},
	{"Append", func(r *Root, n string) error {
		return second(r.Append(n, []byte("a"), AppendOptions{Durability: DurabilityNone}))
	}},
	{"Truncate", func(r *Root, n string) error { return r.Truncate(n, 1) }},
	{"Chmod", func(r *Root, n string) error { return r.Chmod(n, 0o755) }},
	{"Chown", func(r *Root, n string) error { return r.Chown(n, -1, -1) }},
	{"Chtimes", func(r *Root, n string) error { return r.Chtimes(n, epoch, epoch) }},
}

func viewing(flag int) func(r *Root, n string) error {
	return func(r *Root, n string) error {
		f, err := r.OpenView(n, flag, 0o644)
		if err == nil {
			f.Close()
		}
		return err
	}
}

// answerTree has a name for each way a lookup can end.
func answerTree(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.MkdirAll(dir+"/sub/deep", 0o755))
	must(t, os.WriteFile(dir+"/file", []byte("x"), 0o644))
	names = []string{".", "sub", "sub/", "sub/..", "sub/deep/..", "file", "file/", "file/x", "new", "new/x", "../x"}
	for _, l := range [][2]string{
		{"in", "file"}, {"sub/back", "../file"}, {"sub/up", ".."}, {"sub/deep/up", ".."}, {"way", "sub"},
		{"dslash", "sub/"}, {"fslash", "file/"}, {"nslash", "none/"}, {"bslash", "bslash/"},
		{"out", "../x"}, {"absolute", "/etc/hostname"}, {"sub/absolute", "/etc/hostname"}, {"absdir", "/etc"},
		{"dangling", "none"}, {"below", "none/x"}, {"loop", "loop"}, {"two", "sub/two"}, {"sub/two", "../two"},
	} {
		must(t, os.Symlink(l[1], dir+"/"+l[0]))
		names = append(names, l[0])
	}
	return dir, append(names, "absdir/x", "out/x", "way/back", "loop/x", "in/", "absolute/", "fslash/x")
}

// answerKinds are roots that may do the same: whoever looks on changes no answer.
var answerKinds = map[string]*Grant{
	"plain":  nil,
	"budget": {Budget: &Budget{Bytes: 1 << 20, Files: 1 << 10}},
	"before": {Before: func(Mutation) error { return nil }},
	"deny":   {Deny: []string{"unrelated"}},
}

func answerPolicies() map[string]Policy {
	follow, parents, modify := Workspace(), Workspace(), Workspace()
	follow.MutationLinks = LinksFollow
	parents.Links, parents.MutationLinks = LinksFollowParents, LinksFollowParents
	modify.Rights &^= Create
	fresh := follow
	fresh.Rights &^= Modify
	extract := Extract()
	extract.Rights |= Read | List | Modify | Attrib
	return map[string]Policy{"workspace": Workspace(), "follow": follow, "follow parents": parents,
		"extract and read": extract, "no create": modify, "no modify": fresh}
}

// A grant answers as a plain root of the same policy, and the walk as the
// kernel's resolver. Case 9: an absolute link is an escape, by every verb that
// would go through it.
func TestGrantAnswersAsPlain(t *testing.T) {
	for policy, p := range answerPolicies() {
		for _, a := range lookups {
			t.Run(policy+"/"+a.verb, func(t *testing.T) {
				want := answersOf(t, p, nil, kernelResolves(), a.run)
				for kind, g := range answerKinds {
					for _, kernel := range []bool{true, false} {
						if kernel && !kernelResolves() {
							continue
						}
						got := answersOf(t, p, g, kernel, a.run)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s, kernel's resolver %v:\n%s", kind, kernel, diff)
						}
					}
				}
			})
		}
	}
}

// answersOf are the codes of a verb on every name of a fresh tree.
func answersOf(t *testing.T, p Policy, g *Grant, kernel bool, run func(*Root, string) error) (codes []string) {
	t.Helper()
	dir, names := answerTree(t)
	r, err := Open(dir, p)
	must(t, err)
	defer r.Close()
	if !kernel {
		r.beneath = nil
	}
	if g != nil {
		granted := *g
		granted.Policy = p
		r, err = r.Grant(".", granted)
		must(t, err)
		defer r.Close()
	}
	for _, name := range names {
		codes = append(codes, fmt.Sprintf("%s: %s", name, Code(run(r, name))))
	}
	return codes
}
