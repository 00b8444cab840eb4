package caproot

import (
	"io/fs"
	"os"
	"testing"
)

// Every verb that makes a file when there is none, through a link or not.
func creators(r *Root) map[string]func(name string) error {
	flags := os.O_WRONLY | os.O_CREATE
	return map[string]func(string) error{
		"Create":    verbs(r)["Create"],
		"WriteFile": verbs(r)["WriteFile"],
		"Append":    verbs(r)["Append"],
		"OpenFile": func(n string) error {
			f, err := r.OpenFile(n, flags, 0o600)
			if err == nil {
				f.Close()
			}
			return err
		},
		"OpenView": func(n string) error {
			f, err := r.OpenView(n, flags, 0o600)
			if err == nil {
				f.Close()
			}
			return err
		},
	}
}

// Making what a link leads to needs Create alone, for a Root and for each kind of
// grant made from it. What is there needs Modify, and a link that is not followed
// is a link, not a file that is there.
func TestCreateWithoutModify(t *testing.T) {
	p := Workspace()
	p.Rights = Read | List | Create
	for rule, dangling := range map[LinkRule]error{LinksRefuse: ErrSymlink, LinksFollowParents: ErrSymlink, LinksFollow: nil} {
		p.MutationLinks = rule
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			symlink(t, "nowhere", base+"/root/dangling")
			symlink(t, "../outside/new", base+"/root/astray")
			for kind, g := range map[string]*Grant{
				"root": nil, "grant": {}, "deny": {Deny: []string{"dir"}}, "budget": {Budget: &Budget{Bytes: 1 << 20, Files: 100}},
				"before": {Before: func(Mutation) error { return nil }},
			} {
				at := r
				if g != nil {
					g.Policy = p
					sub, err := r.Grant(".", *g)
					must(t, err)
					defer sub.Close()
					at = sub
				}
				for verb, create := range creators(at) {
					if g != nil && g.Budget != nil && (verb == "Create" || verb == "OpenFile") {
						continue // no *os.File under a budget
					}
					want(t, kind+": "+verb+" dangling", create("dangling"), dangling)
					if err := os.Remove(base + "/root/nowhere"); (err == nil) != (dangling == nil) {
						t.Errorf("%s: %s: the target: %v", kind, verb, err)
					}
					want(t, kind+": "+verb+" f", create("f"), ErrPolicy)
					if rule == LinksFollow {
						want(t, kind+": "+verb+" lk", create("lk"), ErrPolicy)
						want(t, kind+": "+verb+" astray", create("astray"), ErrEscape)
					}
					if data := content(t, base, "f"); data != "content" {
						t.Errorf("%s: %s: f holds %q", kind, verb, data)
					}
				}
			}
		})
	}
}

// O_EXCL wants a name that nothing has, so it follows no link, whatever the
// rule and the rights.
func TestExclusiveFollowsNothing(t *testing.T) {
	for _, rights := range []Rights{AllRights, Read | List | Create} {
		p := Compat()
		p.Rights = rights
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			symlink(t, "nowhere", base+"/root/dangling")
			sub, err := r.Grant(".", Grant{Policy: p, Deny: []string{"dir"}})
			must(t, err)
			defer sub.Close()
			for _, at := range []*Root{r, sub} {
				for _, name := range []string{"dangling", "lk", "f"} {
					_, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
					want(t, name, err, fs.ErrExist)
				}
				if _, err := os.Lstat(base + "/root/nowhere"); err == nil {
					t.Error("the target was made")
				}
			}
		})
	}
}
