package caproot

import (
	"io/fs"
	"os"
	"path"
	"testing"
)

// same.go: a name acts only while it is the object that the file has open.
func TestSame(t *testing.T) {
	notUnderWine(t, "removes a file with its last handle")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		f, err := r.OpenFileNoFollow(linked(t)+"/file", os.O_RDONLY, 0)
		must(t, err)
		defer f.Close()
		must(t, r.CheckSame("dir/file", f))
		want(t, "CheckSame of another", r.CheckSame("f", f), ErrChanged)
		want(t, "CheckSame of nothing", r.CheckSame("dir/none", f), fs.ErrNotExist)
		want(t, "RemoveSame of another", r.RemoveSame("f", f), ErrChanged)
		want(t, "MoveSame of another", r.MoveSame("f", "g", f), ErrChanged)
		want(t, "MoveSame over a file", r.MoveSame("dir/file", "f", f), fs.ErrExist)
		if makesLinks(t) {
			want(t, "MoveSame over a link", r.MoveSame("dir/file", "out", f), fs.ErrExist)
		}
		must(t, r.CheckSame("dir/file", f))
		must(t, r.MoveSame("dir/file", linked(t)+"/moved", f))
		must(t, os.Link(base+"/root/dir/moved", base+"/root/second"))
		want(t, "CheckSame with two names", r.CheckSame("dir/moved", f), ErrHardlink)
		want(t, "RemoveSame with two names", r.RemoveSame("dir/moved", f), ErrChanged)
		must(t, os.Remove(base+"/root/second"))
		must(t, r.RemoveSame("dir/moved", f))
		want(t, "RemoveSame again", r.RemoveSame("dir/moved", f), fs.ErrNotExist)
		want(t, "outside", r.CheckSame("out/secret", f), ErrEscape)
	})
}

// A directory that takes the name between comparison and removal is a change of
// the name, as a file is.
func TestRemoveSameOvertaken(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		f, err := r.OpenFileNoFollow("dir/file", os.O_RDONLY, 0)
		must(t, err)
		defer f.Close()
		hook(r, once("remove file", func() {
			must(t, os.Rename(base+"/root/dir/file", base+"/root/dir/away"))
			must(t, os.Mkdir(base+"/root/dir/file", 0o700))
		}))
		err = r.RemoveSame("dir/file", f)
		want(t, "RemoveSame", err, ErrChanged)
		if Code(err) != "changed" {
			t.Errorf("code %q", Code(err))
		}
	})
}

func TestNoFollow(t *testing.T) {
	needsLinks(t)
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for name, cause := range map[string]error{"lk": ErrSymlink, "out": ErrSymlink, "abs": ErrEscape} {
			_, err := r.OpenFileNoFollow(name, os.O_RDONLY, 0)
			want(t, name, err, cause)
			found, err := r.Lexists(name)
			if must(t, err); !found {
				t.Errorf("%s does not exist", name)
			}
		}
		_, err := r.OpenFileNoFollow("in/file/", os.O_RDONLY, 0)
		if Code(err) != "not-dir" {
			t.Errorf("file with a slash: %v", err)
		}
		found, err := r.Lexists("dir/none")
		if must(t, err); found {
			t.Error("a missing name exists")
		}
		_, err = r.Lexists("out/secret")
		want(t, "outside", err, ErrEscape)
	})
}

func TestUnnamed(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		f, err := r.CreateUnnamed(linked(t))
		if Code(err) == "unsupported" {
			t.Skip("no files without a name here")
		}
		must(t, err)
		defer f.Close()
		_, err = f.WriteString("x")
		must(t, err)
		want(t, "taken name", r.NameUnnamed(f, "f"), fs.ErrExist)
		want(t, "outside", r.NameUnnamed(f, "out/new"), ErrEscape)
		must(t, r.NameUnnamed(f, "dir/new"))
		must(t, r.CheckSame("dir/new", f))
		want(t, "named again", r.NameUnnamed(f, "other"), ErrHardlink)
		if _, err := os.Lstat(base + "/root/other"); err == nil {
			t.Error("a second name was made")
		}
		_, err = r.CreateUnnamed("out")
		want(t, "outside", err, ErrEscape)
	})
}

func TestOpenParent(t *testing.T) {
	needsLinks(t)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, _ string) {
		for name, canonical := range map[string]string{"in/file": "dir/file", "f": "f", "in/../dir/./none": "dir/none", "lk": "lk"} {
			dir, got, err := r.OpenParent(name)
			must(t, err)
			if got != canonical {
				t.Errorf("%s is %s, want %s", name, got, canonical)
			}
			found, err := r.Lexists(name)
			must(t, err)
			inside, err := dir.Lexists(path.Base(got))
			must(t, err)
			if found != inside {
				t.Errorf("%s: %v below the root, %v in its directory", name, found, inside)
			}
			must(t, dir.Close())
		}
		for _, name := range []string{"out/x", "abs/x", "../x"} {
			_, _, err := r.OpenParent(name)
			want(t, name, err, ErrEscape)
		}
	})
	p := Workspace()
	p.MutationLinks = LinksRefuse
	eachResolver(t, p, func(t *testing.T, r *Root, _ string) {
		_, _, err := r.OpenParent("in/file")
		want(t, "parent by a link", err, ErrSymlink)
	})
}
