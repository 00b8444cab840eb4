package caproot

import (
	"os"
	"testing"

	"github.com/caproot/caproot/identity"
)

// A link that leads to the root, or that ends in "/", is the directory it leads
// to, on a plain Root as on a grant.
func TestLinksToDirectoriesOnGrants(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/sub/deep", 0o700))
	must(t, os.Symlink("..", dir+"/sub/up"))
	must(t, os.Symlink("..", dir+"/sub/deep/up"))
	must(t, os.Symlink("sub/", dir+"/dslash"))
	p := Workspace()
	p.MutationLinks = LinksFollow
	plain, err := Open(dir, p)
	must(t, err)
	defer plain.Close()
	kinds := map[string]*Root{"plain": plain}
	for kind, g := range map[string]Grant{
		"deny": {Deny: []string{"keys"}}, "budget": {Budget: &Budget{Bytes: 100, Files: 100}},
		"before": {Before: func(Mutation) error { return nil }},
	} {
		g.Policy = p
		kinds[kind], err = plain.Grant(".", g)
		must(t, err)
		defer kinds[kind].Close()
	}
	for kind, r := range kinds {
		for link, is := range map[string]string{"sub/up": ".", "sub/deep/up": "sub", "dslash": "sub"} {
			t.Run(kind+"/"+link, func(t *testing.T) { leadsTo(t, r, link, is) })
		}
		for _, name := range []string{"sub/up", "."} {
			want(t, kind+": Chmod "+name, r.Chmod(name, 0o755), ErrName)
			want(t, kind+": Chown "+name, r.Chown(name, -1, -1), ErrName)
			want(t, kind+": Chtimes "+name, r.Chtimes(name, epoch, epoch), ErrName)
		}
		for _, name := range []string{"sub/deep/up", "dslash"} {
			want(t, kind+": Chmod "+name, r.Chmod(name, 0o755), nil)
			want(t, kind+": Chown "+name, r.Chown(name, -1, -1), nil)
			want(t, kind+": Chtimes "+name, r.Chtimes(name, epoch, epoch), nil)
		}
	}
}

// leadsTo sees that a link is the same as the directory, for verbs that look.
func leadsTo(t *testing.T, r *Root, link, is string) {
	t.Helper()
	through, err := r.Stat(link)
	must(t, err)
	itself, err := r.Stat(is)
	must(t, err)
	if !SameFile(through, itself) {
		t.Errorf("Stat(%q) and Stat(%q) describe two objects", link, is)
	}
	got, err := r.Receipt(link)
	must(t, err)
	known, err := r.Receipt(is)
	must(t, err)
	if v, why := identity.Compare(got.ID, known.ID); v != identity.Same || got.Path != known.Path {
		t.Errorf("Receipt(%q): %v (%v), %q; Receipt(%q): %q", link, v, why, got.Path, is, known.Path)
	}
	if ok, err := r.Exists(link); !ok || err != nil {
		t.Errorf("Exists(%q): %v, %v", link, ok, err)
	}
	if entries, err := r.ReadDir(link); len(entries) == 0 || err != nil {
		t.Errorf("ReadDir(%q): %v, %v", link, entries, err)
	}
	sub, err := r.OpenRoot(link)
	must(t, err)
	sub.Close()
	sub, err = r.Grant(link, Grant{Policy: r.Policy()})
	must(t, err)
	sub.Close()
}
