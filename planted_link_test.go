package caproot

import (
	"os"
	"strings"
	"testing"
)

// case 106: no verb makes a file under a stage's name through a link that another
// process planted, or Sweep would remove what the caller wrote.
func TestPlantedLinkToStageName(t *testing.T) {
	needsLinks(t)
	create := Compat()
	create.Rights &^= Modify
	clamped := Compat()
	clamped.MutationLinks = LinksResolveInRoot
	for _, p := range []Policy{Compat(), create, clamped} {
		for _, granted := range []bool{false, true} {
			eachResolver(t, p, func(t *testing.T, r *Root, base string) {
				sub := r
				if granted {
					var err error
					sub, err = r.Grant(".", Grant{Policy: p, Before: func(Mutation) error { return nil }})
					must(t, err)
					defer sub.Close()
				}
				symlink(t, deadStage, base+"/root/planted")
				symlink(t, "../in/"+deadStage, base+"/root/dir/planted")
				symlink(t, "planted", base+"/root/twice")
				for verb, call := range throughLinks(sub) {
					for _, name := range []string{"planted", "dir/planted", "in/planted", "twice"} {
						want(t, verb+" "+name, call(name), ErrName)
					}
				}
				noStage(t, base)
				if _, err := os.Lstat(base + "/root/dir/" + deadStage); err == nil {
					t.Error("made a file in dir")
				}
			})
		}
	}
}

// throughLinks are the makers that follow a link in the last component.
func throughLinks(r *Root) map[string]func(string) error {
	all := makers(r)
	for verb := range all {
		if strings.HasPrefix(verb, "Mkdir") || verb == "Symlink" || verb == "Link" || verb == "Rename" || verb == "Move" {
			delete(all, verb)
		}
	}
	closing := func(f *os.File, err error) error {
		if err == nil {
			f.Close()
		}
		return err
	}
	all["Create"] = func(n string) error { return closing(r.Create(n)) }
	all["OpenFile"] = func(n string) error { return closing(r.OpenFile(n, os.O_RDONLY|os.O_CREATE, 0o600)) }
	all["OpenFile append"] = func(n string) error { return closing(r.OpenFile(n, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)) }
	return all
}

// What is there is opened through a link as before, whatever its name, and no
// open that may make a file opens a directory.
func TestCreatingOpenThroughLink(t *testing.T) {
	needsLinks(t)
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/"+deadStage, []byte("old"), 0o600))
		symlink(t, deadStage, base+"/root/planted")
		symlink(t, "made", base+"/root/dangling")
		for _, name := range []string{"lk", "planted", "dangling", "fresh"} {
			must(t, r.WriteFile(name, []byte("new"), 0o600))
			if got, err := r.ReadFile(name); string(got) != "new" {
				t.Errorf("%s holds %q, %v", name, got, err)
			}
		}
		for _, flag := range []int{os.O_RDONLY | os.O_CREATE, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC} {
			for _, name := range []string{"in", "dir"} {
				_, err := r.OpenFile(name, flag, 0o600)
				if Code(err) != "is-dir" {
					t.Errorf("open %s with %#x: %v", name, flag, err)
				}
			}
		}
	})
}
