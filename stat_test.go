package caproot

import (
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/caproot/caproot/identity"
)

// A reading verb does not take a link for what it leads to.
func TestStatOfUnfollowedLink(t *testing.T) {
	needsLinks(t)
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
		if !slices.IsSorted(names) || len(names) != 2 && len(names) != 6 {
			t.Errorf("names %q", names)
		}
	})
}

// The path of a receipt is canonical, whatever the spelling was, and reads back.
func TestReceiptPathOfDirectories(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/dir/sub", 0o755))
		for name, path := range map[string]string{".": ".", "dir/..": ".", "dir/sub/..": "dir", linked(t) + "/sub/..": "dir", "dir/sub/": "dir/sub", linked(t) + "/.": "dir", "./dir//sub": "dir/sub"} {
			receipt, err := r.Receipt(name)
			must(t, err)
			text, err := receipt.MarshalJSON()
			must(t, err)
			var back identity.Receipt
			must(t, back.UnmarshalJSON(text))
			if back.Path != path || r.Check(back) != nil {
				t.Errorf("%s is %s: %v", name, back.Path, r.Check(back))
			}
		}
	})
}
