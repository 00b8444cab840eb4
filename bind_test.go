package caproot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A root that is bound to its path refuses every verb once the path names
// another directory, and works again when it is back.
func TestBindPath(t *testing.T) {
	notUnderWine(t, "acts on the path that a handle was opened by")
	p := Compat()
	p.Bind = BindPath
	for name, c := range map[string]struct {
		away, back func(t *testing.T, base string)
	}{
		"renamed": {
			func(t *testing.T, base string) { must(t, os.Rename(base+"/root", base+"/moved")) },
			func(t *testing.T, base string) { must(t, os.Rename(base+"/moved", base+"/root")) },
		},
		"replaced": {
			func(t *testing.T, base string) {
				must(t, os.Rename(base+"/root", base+"/moved"))
				must(t, os.CopyFS(base+"/root", os.DirFS(base+"/outside")))
			},
			func(t *testing.T, base string) {
				must(t, os.RemoveAll(base+"/root"))
				must(t, os.Rename(base+"/moved", base+"/root"))
			},
		},
		"a link to another": {
			func(t *testing.T, base string) {
				must(t, os.Rename(base+"/root", base+"/moved"))
				symlink(t, "outside", base+"/root")
			},
			func(t *testing.T, base string) {
				must(t, os.Remove(base+"/root"))
				must(t, os.Rename(base+"/moved", base+"/root"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, p, func(t *testing.T, r *Root, base string) {
				sub, err := r.OpenRoot("dir")
				must(t, err)
				defer sub.Close()
				staged, err := r.Stage("new", PutOptions{})
				must(t, err)
				named, err := stageNamed(r, "new")
				must(t, err)
				must(t, r.Chmod("f", 0o600))
				before := seal(t, base+"/root")
				c.away(t, base)
				for verb, call := range verbs(r) {
					err := call("f")
					want(t, verb, err, ErrChanged)
					if errors.Is(err, fs.ErrNotExist) || Code(err) != "changed" {
						t.Errorf("%s: %v", verb, err)
					}
				}
				want(t, "a root below", verbs(sub)["ReadFile"]("file"), ErrChanged)
				for _, s := range []*Staged{staged, named} {
					_, err = s.Commit()
					want(t, "Commit", err, ErrChanged)
				}
				c.back(t, base)
				if after := seal(t, base+"/root"); !sameFiles(before, after) {
					t.Errorf("root changed:\n%s\nwas\n%s", after, before)
				}
				must(t, verbs(r)["ReadFile"]("f"))
				must(t, verbs(sub)["ReadFile"]("file"))
				untouched(t, base)
			})
		})
	}
}

// sameFiles compares seals but for the root directory's own line, which a
// rename and a removed stage touch.
func sameFiles(a, b string) bool {
	_, a, _ = strings.Cut(a, "\n")
	_, b, _ = strings.Cut(b, "\n")
	return a == b
}

func stageNamed(r *Root, name string) (*Staged, error) {
	s := hook(r, answers(map[string]error{"unnamed": errNotHere}))
	defer func() { r.sys = s.system }()
	return r.Stage(name, PutOptions{})
}

// The path that a root is bound to does not depend on the working directory.
func TestBindRelativePath(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(base+"/root", 0o755))
	t.Chdir(base)
	p := Workspace()
	p.Bind = BindPath
	r, err := Open("root", p)
	must(t, err)
	defer r.Close()
	t.Chdir("/")
	must(t, r.WriteFile("f", nil, 0o600))
}

// case 7: a root opened by a link is the directory the link led to, and
// retargeting the link has no effect; with BindPath it is noticed.
func TestBindToLink(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"a", "b"} {
		must(t, os.Mkdir(base+"/"+dir, 0o755))
		must(t, os.WriteFile(base+"/"+dir+"/f", []byte(dir), 0o600))
	}
	symlink(t, "a", base+"/link")
	bound := Workspace()
	bound.Bind = BindPath
	free, err := Open(base+"/link", Workspace())
	must(t, err)
	defer free.Close()
	fixed, err := Open(base+"/link", bound)
	must(t, err)
	defer fixed.Close()
	must(t, verbs(fixed)["ReadFile"]("f"))
	must(t, os.Remove(base+"/link"))
	symlink(t, "b", base+"/link")
	if data, err := free.ReadFile("f"); string(data) != "a" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	want(t, "bound", verbs(fixed)["ReadFile"]("f"), ErrChanged)
	if free.Name() != base+"/link" || free.Policy() != Workspace() {
		t.Errorf("name %q", free.Name())
	}
}

func TestOpenRefuses(t *testing.T) {
	base := t.TempDir()
	must(t, os.WriteFile(base+"/file", nil, 0o600))
	mkfifo(t, base+"/fifo")
	symlink(t, "nowhere", base+"/dangling")
	fds := openFDs(t)
	for name, cause := range map[string]error{"file": syscall.ENOTDIR, "fifo": syscall.ENOTDIR, "dangling": fs.ErrNotExist, "no": fs.ErrNotExist} {
		_, err := Open(base+"/"+name, Workspace())
		want(t, name, err, cause)
		var e *fs.PathError
		if !errors.As(err, &e) {
			t.Errorf("%#v", err)
		}
	}
	file, err := os.Open(base + "/file")
	must(t, err)
	_, err = FromFile(file, Workspace())
	want(t, "FromFile of a file", err, syscall.ENOTDIR)
	must(t, file.Close())
	_, err = FromFile(file, Workspace())
	want(t, "FromFile of a closed file", err, fs.ErrClosed)
	dir, err := os.Open(base)
	must(t, err)
	_, err = FromFile(dir, Policy{Rights: AllRights})
	want(t, "FromFile with BindPath", err, ErrUnsupported)
	want(t, "FromFile with BindPath", err, errors.ErrUnsupported)
	must(t, dir.Close())
	o, err := os.OpenRoot(base)
	must(t, err)
	_, err = FromOSRoot(o, Policy{Rights: AllRights})
	want(t, "FromOSRoot with BindPath", err, ErrUnsupported)
	must(t, o.Close())
	_, err = FromOSRoot(o, Workspace())
	want(t, "FromOSRoot of a closed root", err, fs.ErrClosed)
	if n := openFDs(t); n != fds {
		t.Errorf("descriptors: %d before, %d after", fds, n)
	}
}

// Roots derived from a root outlive it.
func TestDerivedRootsOutlive(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		parent, err := r.OpenRoot(".")
		must(t, err)
		child, err := parent.OpenRoot(linked(t))
		must(t, err)
		must(t, parent.Close())
		must(t, verbs(child)["ReadFile"]("file"))
		want(t, "escape", verbs(child)["ReadFile"]("../f"), ErrEscape)
		if child.Policy() != r.Policy() {
			t.Errorf("policy %+v", child.Policy())
		}
		must(t, child.Close())
		f, err := r.OpenView("f", os.O_RDONLY, 0)
		must(t, err)
		data, err := io.ReadAll(f)
		must(t, err)
		must(t, f.Close())
		if string(data) != "content" {
			t.Errorf("%q", data)
		}
	})
}
