package caproot

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

func TestMoveOnto(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		o        MoveOptions
		want     error
	}{
		"a new name":                  {"f", "new", MoveOptions{}, nil},
		"a file":                      {"f", "g", MoveOptions{}, fs.ErrExist},
		"a file, replacing":           {"f", "g", MoveOptions{Replace: true}, nil},
		"a directory, replacing":      {"f", "dir", MoveOptions{Replace: true}, fs.ErrExist},
		"a directory on a file":       {"dir", "g", MoveOptions{Replace: true}, syscall.ENOTDIR},
		"a directory on an empty one": {"dir", "empty", MoveOptions{Replace: true}, fs.ErrExist},
		"a directory":                 {"dir", "dir2", MoveOptions{}, nil},
		"a directory below itself":    {"dir", "dir/sub", MoveOptions{}, syscall.EINVAL},
		"a link":                      {"lk", "lk2", MoveOptions{}, nil},
		"a link, replacing":           {"f", "lk", MoveOptions{Replace: true}, nil},
		"a fifo, replacing":           {"f", "fifo", MoveOptions{Replace: true}, ErrSpecial},
		"the same name":               {"f", "f", MoveOptions{Replace: true}, nil},
		"the same directory":          {"dir", "./dir", MoveOptions{Replace: true}, nil},
		"nothing there":               {"no", "new", MoveOptions{}, fs.ErrNotExist},
		"no parent there":             {"f", "no/new", MoveOptions{}, fs.ErrNotExist},
		"a file as a directory":       {"f/", "new", MoveOptions{}, syscall.ENOTDIR},
		"a file to a directory name":  {"f", "new/", MoveOptions{}, syscall.ENOTDIR},
		"a directory to such a name":  {"dir/", "new/", MoveOptions{}, nil},
		"a link as a directory":       {"in/", "new", MoveOptions{}, ErrSymlink},
		"out of the root":             {"f", "out/new", MoveOptions{}, ErrEscape},
		"into the root":               {"out/secret", "new", MoveOptions{}, ErrEscape},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				must(t, os.WriteFile(base+"/root/g", []byte("other"), 0o600))
				must(t, os.Mkdir(base+"/root/empty", 0o755))
				if strings.Contains(name, "fifo") {
					mkfifo(t, base+"/root/fifo")
				}
				if strings.Contains(name, "link") || strings.Contains(name, "the root") {
					needsLinks(t)
				}
				before := seal(t, base+"/root")
				id, _ := r.Lstat(c.from)
				receipt, err := r.Move(c.from, c.to, c.o)
				if c.want != nil {
					want(t, "Move", err, c.want)
					if after := seal(t, base+"/root"); after != before || receipt.Published != identity.Unpublished {
						t.Errorf("changed:\n%s\nwas\n%s", after, before)
					}
					var e *os.LinkError
					if !errors.As(err, &e) || e.Old != c.from || e.New != c.to {
						t.Errorf("%#v", err)
					}
					return
				}
				must(t, err)
				now, err := r.Lstat(receipt.Path)
				must(t, err)
				if !SameFile(id, now) || receipt.Op != "move" || receipt.Published == identity.Unpublished {
					t.Errorf("%+v", receipt)
				}
				if _, err := r.Lstat(c.from); c.from != receipt.Path && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("source: %v", err)
				}
			})
		})
	}
}

func TestMoveRights(t *testing.T) {
	p := Workspace()
	p.Rights &^= Replace
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/g", []byte("other"), 0o600))
		for _, move := range []func() error{
			func() error { _, err := r.Move("f", "g", MoveOptions{Replace: true}); return err },
			func() error { return r.Rename("f", "g") },
		} {
			want(t, "onto a file", move(), ErrPolicy)
		}
		// Without the right even a name that is new a moment ago is not replaced.
		hook(r, once("rename noreplace", func() { must(t, os.WriteFile(base+"/root/h", []byte("theirs"), 0o600)) }))
		_, err := r.Move("f", "h", MoveOptions{Replace: true})
		want(t, "onto a new file", err, fs.ErrExist)
		if content(t, base, "g") != "other" || content(t, base, "h") != "theirs" || content(t, base, "f") != "content" {
			t.Error("replaced")
		}
	})
}

// case 102: two names of one file become one, in one directory or two; a
// directory moved onto itself stays.
func TestMoveOfOneObject(t *testing.T) {
	p := Workspace()
	p.Hardlinks = HardlinksAllow
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		for _, to := range []string{"g", "dir/f", "dir/g"} {
			must(t, os.Link(base+"/root/f", base+"/root/"+to))
			_, err := r.Move("f", to, MoveOptions{})
			must(t, err)
			if _, err := os.Lstat(base + "/root/f"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("source: %v", err)
			}
			if content(t, base, to) != "content" {
				t.Error("content lost")
			}
			must(t, os.Rename(base+"/root/"+to, base+"/root/f"))
		}
		must(t, os.Link(base+"/root/f", base+"/root/g"))
		_, err := r.Move("f", linked(t)+"/../f", MoveOptions{})
		must(t, err)
		if content(t, base, "f") != "content" || content(t, base, "g") != "content" {
			t.Error("a move onto the same name took a name away")
		}
	})
}

// folding finds an entry by a name in another case, as ext4 with casefold, APFS
// and NTFS do. case 103.
type folding struct{ system }

func (f folding) entry(dir handle, name string) string {
	h, err := f.system.open(dir, ".", forRead|directoryOnly, 0)
	if err != nil {
		return name
	}
	defer f.system.close(h)
	entries, _ := f.system.list(h, make([]byte, listBytes))
	for _, e := range entries {
		if strings.EqualFold(e.name, name) {
			return e.name
		}
	}
	return name
}

func (f folding) stat(dir handle, name string, full bool) (status, error) {
	if name != "" {
		name = f.entry(dir, name)
	}
	return f.system.stat(dir, name, full)
}

func (f folding) open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	if name != "." {
		name = f.entry(dir, name)
	}
	return f.system.open(dir, name, how, perm)
}

func (f folding) remove(dir handle, name string, isDir bool) error {
	return f.system.remove(dir, f.entry(dir, name), isDir)
}

// case 103: a new spelling of the one entry that has both is no other entry: the
// file is not taken for a second name of itself and removed.
func TestMoveToOtherCase(t *testing.T) {
	for _, links := range []int{1, 2} {
		p := Workspace()
		p.Hardlinks = HardlinksAllow
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.WriteFile(base+"/root/dir/Abc", []byte("content"), 0o644))
			if links == 2 {
				must(t, os.Link(base+"/root/dir/Abc", base+"/root/second"))
			}
			r.sys = folding{r.sys}
			_, err := r.Move("dir/Abc", "dir/ABC", MoveOptions{})
			must(t, err)
			if content(t, base, "dir/ABC") != "content" {
				t.Errorf("%d links: the file is gone", links)
			}
		})
	}
}

func TestMoveIfMatch(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f", WithDigest)
		must(t, err)
		theirs(t, base, "theirs!")
		_, err = r.Move("f", "new", MoveOptions{IfMatch: &old})
		want(t, "replaced", err, ErrChanged)
		now, err := r.Receipt("f", WithDigest)
		must(t, err)
		receipt, err := r.Move("f", "dir/new", MoveOptions{IfMatch: &now})
		must(t, err)
		if receipt.ID != now.ID || receipt.Path != "dir/new" {
			t.Errorf("%+v", receipt)
		}
		// The name goes to another object between the look and the move.
		must(t, os.WriteFile(base+"/root/f", []byte("mine"), 0o600))
		now, err = r.Receipt("f")
		must(t, err)
		hook(r, once("rename noreplace", func() { theirs(t, base, "theirs!") }))
		receipt, err = r.Move("f", "new", MoveOptions{IfMatch: &now})
		want(t, "replaced meanwhile", err, ErrChanged)
		if receipt.Published != identity.Unpublished {
			t.Errorf("%+v", receipt)
		}
	})
}
