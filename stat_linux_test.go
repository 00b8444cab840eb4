package caproot

import (
	"io/fs"
	"slices"
	"testing"
)

// A reading verb does not take a link for what it leads to.
func TestStatOfUnfollowedLink(t *testing.T) {
	for name, p := range map[string]Policy{"refuse": Extract(), "parents": func() Policy { p := Extract(); p.Links = LinksFollowParents; return p }()} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, p, func(t *testing.T, r *Root, base string) {
				for _, n := range []string{"lk", "./lk", "dir/../lk", "lk/", "in/", "in/.", "out"} {
					if p.Links == LinksFollowParents && n[len(n)-1] != 'k' && n != "out" {
						continue // "in/" asks for the directory behind the link
					}
					_, err := r.Stat(n)
					want(t, "Stat "+n, err, ErrSymlink)
					_, err = r.Exists(n)
					want(t, "Exists "+n, err, ErrSymlink)
				}
				for _, n := range []string{"lk", "./lk", "out"} {
					st, err := r.Lstat(n)
					if err != nil || st.Mode()&fs.ModeSymlink == 0 {
						t.Errorf("Lstat %s: %v, %v", n, st, err)
					}
				}
			})
		})
	}
}

func TestReadDirIsSorted(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		entries, err := r.ReadDir(".")
		must(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
			_, err := e.Info()
			must(t, err)
		}
		if !slices.IsSorted(names) || len(names) != 6 {
			t.Errorf("names %q", names)
		}
	})
}
