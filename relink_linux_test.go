package caproot

import (
	"os"
	"testing"
)

func TestLinkTargetsInside(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/a/b/c", 0o755))
		must(t, r.Symlink("a/b/c", "deep"))
		for target, answer := range map[string]error{
			"f": nil, "../f": nil, "../../f": ErrEscape, "..": nil, "../..": ErrEscape, "file": nil, "../a/b": nil, "./../f": nil,
			// By "deep" these end one directory above the root.
			"../deep/../../../../outside": ErrEscape, "../in/../../outside": ErrEscape, "sub/..": ErrEscape, "/f": ErrEscape,
		} {
			want(t, target, r.Symlink(target, "dir/new"), answer)
			if err := os.Remove(base + "/root/dir/new"); (err == nil) != (answer == nil) {
				t.Errorf("%s: the link: %v", target, err)
			}
		}
	})
}

// relinks are the verbs that give what has a name another one.
func relinks(r *Root) map[string]func(from, to string) error {
	return map[string]func(from, to string) error{
		"Rename":      r.Rename,
		"Move":        func(a, b string) error { return errOf(r.Move(a, b, MoveOptions{Replace: true})) },
		"Across":      func(a, b string) error { return errOf(r.Move(a, b, MoveOptions{Replace: true, CrossDevice: true})) },
		"Exchange":    func(a, b string) error { return errOf(r.Exchange(a, b, MoveOptions{})) },
		"Exchange to": func(a, b string) error { return errOf(r.Exchange(b, a, MoveOptions{})) },
		"MoveSame":    func(a, b string) error { return moveLinkSame(r, a, b) },
	}
}

// moveLinkSame gives MoveSame a descriptor of the link itself, and a free name.
func moveLinkSame(r *Root, a, b string) error {
	fd, err := r.sys.open(r.dir, "dir", pathOnly|directoryOnly, 0)
	if err != nil {
		return err
	}
	defer r.sys.close(fd)
	h, err := r.sys.open(fd, "up", pathOnly, 0)
	if err != nil {
		return err
	}
	f := newFile(h, a)
	defer f.Close()
	if err := r.Remove(b); err != nil {
		return err
	}
	return r.MoveSame(a, b, f)
}

// A link keeps to what TargetsInside says of its text under every verb that gives
// it a new place, by a link on the way too. One that led out before is not worse
// elsewhere, and TargetsAny asks nothing.
func TestRelink(t *testing.T) {
	anywhere := Workspace()
	anywhere.LinkTargets = TargetsAny
	for _, p := range []Policy{Workspace(), anywhere} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.MkdirAll(base+"/root/dir/sub", 0o755))
			for verb, relink := range relinks(r) {
				for _, c := range []struct {
					target, from, to string
					answer           error
				}{
					{"../f", "dir/up", "dir/sub/up", nil},
					{"../f", "in/up", "in/sub/up", nil},
					{"../f", "dir/up", "up", ErrEscape},
					{"../f", "dir/up", "in/../up", ErrEscape},
					{"../f", "in/up", "up", ErrEscape},
					{"file", "dir/up", "up", nil},
					{"../../outside", "dir/up", "up", nil},
					{"/etc", "dir/up", "up", nil},
				} {
					if c.answer != nil && p == anywhere {
						c.answer = nil
					}
					must(t, os.Symlink(c.target, base+"/root/dir/up"))
					must(t, os.WriteFile(base+"/root/"+c.to, nil, 0o600))
					want(t, verb+" "+c.target+" to "+c.to, relink(c.from, c.to), c.answer)
					left, _ := os.Readlink(base + "/root/" + c.to)
					if moved := left == c.target; moved != (c.answer == nil) {
						t.Errorf("%s of %s to %s: moved %v", verb, c.target, c.to, moved)
					}
					os.Remove(base + "/root/" + c.to)
					os.Remove(base + "/root/dir/up")
				}
			}
		})
	}
}
