package caproot

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// exports are the verbs that may hand out an *os.File of what has a name.
func exports(r *Root) map[string]func(name string) (*os.File, error) {
	return map[string]func(string) (*os.File, error){
		"Open":             r.Open,
		"OpenFile":         func(n string) (*os.File, error) { return r.OpenFile(n, os.O_RDONLY, 0) },
		"OpenFile dir":     func(n string) (*os.File, error) { return r.OpenFile(n, os.O_RDONLY|syscall.O_DIRECTORY, 0) },
		"OpenFileNoFollow": func(n string) (*os.File, error) { return r.OpenFileNoFollow(n, os.O_RDONLY, 0) },
		"FS":               func(n string) (*os.File, error) { return osFile(r.FS().Open(n)) },
		"OpenView":         func(n string) (*os.File, error) { return osFile(r.OpenView(n, os.O_RDONLY, 0)) },
	}
}

// osFile is the *os.File behind what a verb gave, or nil.
func osFile[F interface{ Close() error }](f F, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	if file, ok := any(f).(*os.File); ok {
		return file, nil
	}
	return nil, errors.Join(f.Close(), ErrPolicy)
}

// By an *os.File of a directory FromFile makes a Root with all rights, so only
// Share gives one; the ways to list that are left give none.
func TestDirectoryNeedsShare(t *testing.T) {
	shared := Workspace()
	shared.Rights |= Share
	for _, p := range []Policy{ReadOnly(), Workspace(), Extract(), shared} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			deny, err := r.Grant(".", Grant{Policy: Compat(), Deny: []string{"in"}})
			must(t, err)
			defer deny.Close()
			plain, err := r.Grant(".", Grant{Policy: Compat()})
			must(t, err)
			defer plain.Close()
			for kind, at := range map[string]*Root{"root": r, "deny": deny, "plain": plain} {
				for verb, open := range exports(at) {
					for _, name := range []string{".", "dir", "dir/"} {
						f, err := open(name)
						if err == nil {
							must(t, f.Close())
						}
						may := p == shared && kind != "deny" && verb != "FS" && verb != "OpenView"
						if may && err != nil || !may && err == nil {
							t.Errorf("%s of %v: %s(%q): %v", kind, p.Rights, verb, name, err)
						}
						if !may && verb == "Open" && !(errors.Is(err, ErrPolicy) && Code(err) == "policy") {
							t.Errorf("%s: %s(%q): %v", kind, verb, name, err)
						}
					}
				}
			}
			must(t, verbs(r)["ReadDir"]("dir"))
			must(t, verbs(r)["OpenRoot"]("dir"))
			must(t, verbs(r)["OpenView"]("dir"))
		})
	}
}

func TestWatch(t *testing.T) {
	r, dir := openTree(t, ReadOnly())
	w, err := r.Watch("dir", "new", "file")
	if errors.Is(err, ErrUnsupported) {
		t.Skip("no watch here: ", err)
	}
	must(t, err)
	told := func(what string) {
		t.Helper()
		select {
		case _, more := <-w.Changed():
			if !more {
				t.Errorf("%s: the watch ended", what)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s was not told", what)
		}
	}
	must(t, os.Mkdir(dir+"/dir/new", 0o700))
	told("a new name")
	must(t, os.WriteFile(dir+"/dir/file", []byte("more"), 0o600))
	told("new content")
	must(t, os.Rename(dir+"/dir/file", dir+"/dir/new/file"))
	told("a name that goes")
	must(t, w.Close())
	must(t, w.Close())
	for range w.Changed() {
	}
}

// A watch reveals of a grant nothing that it withholds, and ends with it.
func TestWatchOfGrant(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Deny: []string{"dir/secret"}}, func(t *testing.T, sub *Root, base string) {
		_, err := sub.Watch("dir", "secret")
		want(t, "denied", err, ErrPolicy)
		for _, name := range []string{"", "a/b", ".."} {
			_, err = sub.Watch("dir", name)
			want(t, name, err, ErrName)
		}
		_, err = sub.Watch("out", "secret")
		want(t, "outside", err, ErrEscape)
		_, err = sub.Watch("f")
		want(t, "file", err, syscall.ENOTDIR)
		w, err := sub.Watch("dir", "new")
		if errors.Is(err, ErrUnsupported) && sub.beneath == nil {
			return // the walker's tests hide what else the system can
		}
		must(t, err)
		defer w.Close()
		must(t, os.WriteFile(base+"/root/dir/secret", nil, 0o600))
		sub.Revoke()
		must(t, os.WriteFile(base+"/root/dir/new", nil, 0o600))
		for range w.Changed() {
			t.Error("told of a change after the revocation")
		}
		_, err = sub.Watch("dir")
		want(t, "revoked", err, ErrRevoked)
	})
}
