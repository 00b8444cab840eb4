package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// granted runs a test with a grant of the root of eachResolver, under both
// resolvers.
func granted(t *testing.T, p Policy, g Grant, test func(t *testing.T, sub *Root, base string)) {
	t.Helper()
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		sub, err := r.Grant(".", g)
		must(t, err)
		defer sub.Close()
		test(t, sub, base)
	})
}

func TestGrantMeetsPolicies(t *testing.T) {
	eachResolver(t, ReadOnly(), func(t *testing.T, r *Root, base string) {
		sub, err := r.Grant(linked(t), Grant{Policy: Compat()})
		must(t, err)
		defer sub.Close()
		if sub.Policy() != ReadOnly().Meet(Compat()) {
			t.Errorf("policy %+v", sub.Policy())
		}
		if data, err := sub.ReadFile("file"); string(data) != "file" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
		_, err = sub.ReadFile("../f")
		want(t, "parent", err, ErrEscape)
		_, err = sub.Put("new", nil, PutOptions{})
		want(t, "Put", err, ErrPolicy)
		if makesLinks(t) {
			_, err = r.Grant("out", Grant{Policy: Compat()})
			want(t, "grant of the outside", err, ErrEscape)
		}
		nothing, err := r.Grant(".", Grant{})
		if err == nil {
			_, err = nothing.ReadFile("f")
			nothing.Close()
		}
		if r.beneath == nil {
			want(t, "zero grant without openat2", err, ErrUnsupported)
		} else {
			want(t, "zero grant", err, ErrPolicy)
		}
	})
}

// Every verb on a revoked grant, on a grant made from it and on a Root opened
// in it; parents and siblings go on.
func TestRevoke(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		top, err := r.Grant(".", Grant{Policy: Compat()})
		must(t, err)
		sibling, err := r.Grant(".", Grant{Policy: Compat()})
		must(t, err)
		sub, err := top.Grant("dir", Grant{Policy: Compat()})
		must(t, err)
		opened, err := sub.OpenRoot(".")
		must(t, err)
		file, err := opened.OpenView("file", os.O_RDWR, 0)
		must(t, err)
		stage, err := opened.Stage("staged", PutOptions{})
		must(t, err)
		top.Revoke()
		for _, revoked := range []*Root{top, sub, opened} {
			for verb, call := range verbs(revoked) {
				want(t, verb, call("file"), ErrRevoked)
			}
			_, err := revoked.Grant(".", Grant{})
			want(t, "Grant", err, ErrRevoked)
		}
		for what, call := range fileCalls(file) {
			want(t, "File."+what, call(), ErrRevoked)
		}
		_, err = stage.Write([]byte("x"))
		want(t, "Staged.Write", err, ErrRevoked)
		_, err = stage.Commit()
		want(t, "Commit", err, ErrRevoked)
		must(t, verbs(sibling)["Put"]("f"))
		must(t, verbs(r)["Put"]("f"))
		noStage(t, base)
		must(t, file.Close())
		for _, root := range []*Root{opened, sub, top, sibling} {
			must(t, root.Close())
		}
	})
}

// A Root that was opened is revoked with everything derived from it.
func TestRevokeOpenedRoot(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		sub, err := r.Grant("dir", Grant{Policy: Workspace()})
		must(t, err)
		opened, err := r.OpenRoot("dir")
		must(t, err)
		want(t, "Wait", r.Wait(context.Background()), ErrUnsupported)
		r.Revoke()
		for _, root := range []*Root{r, sub, opened} {
			_, err := root.ReadFile("file")
			want(t, "ReadFile", err, ErrRevoked)
		}
		must(t, sub.Close())
		must(t, opened.Close())
	})
}

func TestParentCloseKeepsGrant(t *testing.T) {
	base := t.TempDir()
	r, err := Open(base, Workspace())
	must(t, err)
	sub, err := r.Grant(".", Grant{Policy: Workspace(), Budget: &Budget{NoLimit, NoLimit}})
	must(t, err)
	must(t, r.Close())
	must(t, verbs(sub)["Put"]("f"))
	must(t, sub.Close())
}

func fileCalls(f *File) map[string]func() error {
	return map[string]func() error{
		"Read":     func() error { _, err := f.Read(make([]byte, 1)); return err },
		"ReadAt":   func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"Write":    func() error { _, err := f.Write([]byte("x")); return err },
		"WriteAt":  func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		"Seek":     func() error { _, err := f.Seek(0, 0); return err },
		"Stat":     func() error { _, err := f.Stat(); return err },
		"Truncate": func() error { return f.Truncate(1) },
		"Sync":     f.Sync,
		"ReadDir":  func() error { _, err := f.ReadDir(1); return err },
	}
}

// The context of a grant ends it, and the grants made from it.
func TestGrantContext(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		ctx, cancel := context.WithCancelCause(context.Background())
		top, err := r.Grant(".", Grant{Policy: Compat(), Context: ctx})
		must(t, err)
		sub, err := top.Grant(".", Grant{Policy: Compat()})
		must(t, err)
		file, err := sub.OpenView("f", os.O_RDWR, 0)
		must(t, err)
		cancel(fs.ErrNotExist)
		for verb, call := range verbs(sub) {
			err := call("f")
			want(t, verb, err, context.Canceled)
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s looks like absence: %v", verb, err)
			}
		}
		for what, call := range fileCalls(file) {
			want(t, "File."+what, call(), context.Canceled)
		}
		must(t, file.Close())
		must(t, sub.Close())
		must(t, top.Close())
	})
}

// Wait returns when the calls in flight have ended, of grants below too.
func TestWait(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		entered, release := make(chan struct{}), make(chan struct{})
		top, err := r.Grant(".", Grant{Policy: Workspace()})
		must(t, err)
		sub, err := top.Grant(".", Grant{Policy: Workspace(), Before: func(Mutation) error {
			close(entered)
			<-release
			return nil
		}})
		must(t, err)
		result := make(chan error)
		go func() { result <- sub.Mkdir("made", 0o700) }()
		<-entered
		top.Revoke()
		done, cancel := context.WithCancel(context.Background())
		cancel()
		want(t, "Wait while a call runs", top.Wait(done), context.Canceled)
		waited := make(chan error)
		go func() { waited <- top.Wait(context.Background()) }()
		select {
		case err := <-waited:
			t.Errorf("Wait did not wait: %v", err)
		default:
		}
		close(release)
		want(t, "the call in flight", <-result, ErrRevoked)
		must(t, <-waited)
		must(t, top.Wait(done))
		if _, err := os.Lstat(base + "/root/made"); err == nil {
			t.Error("made after revocation")
		}
		must(t, sub.Close())
		must(t, top.Close())
	})
}

// Grants used and revoked by many goroutines; run with -race.
func TestRevokeUnderUse(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for range 20 {
			top, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{"dir"}, Budget: &Budget{NoLimit, NoLimit}})
			must(t, err)
			var after atomic.Bool
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					sub, err := top.Grant(".", Grant{Policy: Workspace()})
					for n := 0; err == nil && n < 200; n++ {
						revoked := after.Load()
						if _, err = sub.ReadFile("f"); err == nil && revoked {
							t.Error("read after Revoke returned")
						}
					}
					if err != nil && !errors.Is(err, ErrRevoked) {
						t.Error(err)
					}
					if sub != nil {
						sub.Close()
					}
				})
			}
			top.Revoke()
			after.Store(true)
			must(t, top.Wait(context.Background()))
			wg.Wait()
			must(t, top.Close())
		}
	})
}

// By no method of the view, nor of what the view gives, can a descriptor, an
// os.Root or a Root be had.
func TestPluginGivesNoHandle(t *testing.T) {
	banned := map[reflect.Type]bool{}
	for _, v := range []any{&os.File{}, &os.Root{}, &Root{}, &Staged{}} {
		banned[reflect.TypeOf(v)] = true
	}
	seen := map[reflect.Type]bool{}
	var visit func(from string, typ reflect.Type)
	visit = func(from string, typ reflect.Type) {
		if banned[typ] {
			t.Errorf("%s gives %v", from, typ)
		}
		if seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			if m.Name == "Fd" || m.Name == "SyscallConn" || m.Name == "Name" && typ.Implements(reflect.TypeFor[Plugin]()) {
				t.Errorf("%v has %s", typ, m.Name)
			}
			for o := range m.Type.NumOut() {
				visit(typ.String()+"."+m.Name, m.Type.Out(o))
			}
		}
		switch typ.Kind() {
		case reflect.Slice, reflect.Pointer:
			visit(from, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() {
					visit(typ.String()+"."+f.Name, f.Type)
				}
			}
		}
	}
	granted(t, Compat(), Grant{Policy: Compat()}, func(t *testing.T, sub *Root, base string) {
		p := sub.Plugin()
		s, err := p.Stage("s", PutOptions{})
		must(t, err)
		f, err := p.OpenView("f", 0, 0)
		must(t, err)
		opened, err := p.FS().Open("f")
		must(t, err)
		entries, err := p.ReadDir(".")
		must(t, err)
		for _, v := range []any{p, s, f, p.FS(), opened, entries[0], Entry{}, &Batch{}} {
			visit("Plugin()", reflect.TypeOf(v))
		}
		must(t, s.Abort())
		must(t, f.Close())
		must(t, opened.Close())
	})
	visit("the interface", reflect.TypeFor[Plugin]())
	if len(seen) < 10 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// The errors of a view tell no path of the host.
func TestPluginErrorsTellNoHostPath(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Deny: []string{"dir"}}, func(t *testing.T, sub *Root, base string) {
		for verb, call := range verbs(sub) {
			for _, name := range []string{"out/secret", "dir/file", "missing/x", "..", "/etc", "f/x", ""} {
				if err := call(name); err != nil && strings.Contains(err.Error(), base) {
					t.Errorf("%s: %v", verb, err)
				}
			}
		}
	})
}

// The verbs that take an open file as evidence, under a grant.
func TestGrantOfEvidenceVerbs(t *testing.T) {
	needsLinks(t)
	refuse := false
	g := Grant{Policy: Compat(), Deny: []string{"denied"}, Before: func(Mutation) error {
		if refuse {
			return errors.New("no")
		}
		return nil
	}}
	granted(t, Compat(), g, func(t *testing.T, sub *Root, base string) {
		refuse = false
		must(t, os.MkdirAll(base+"/root/denied", 0o755))
		f, err := sub.Open("f")
		must(t, err)
		defer f.Close()
		for what, call := range map[string]func(name string) error{
			"Lexists":          func(n string) error { _, err := sub.Lexists(n); return err },
			"OpenFileNoFollow": func(n string) error { _, err := sub.OpenFileNoFollow(n, 0, 0); return err },
			"OpenParent":       func(n string) error { _, _, err := sub.OpenParent(n); return err },
			"CheckSame":        func(n string) error { return sub.CheckSame(n, f) },
			"RemoveSame":       func(n string) error { return sub.RemoveSame(n, f) },
			"MoveSame from":    func(n string) error { return sub.MoveSame(n, "g", f) },
			"MoveSame to":      func(n string) error { return sub.MoveSame("f", n, f) },
			"CreateUnnamed":    func(n string) error { _, err := sub.CreateUnnamed(n); return err },
			"NameUnnamed":      func(n string) error { return sub.NameUnnamed(f, n) },
		} {
			want(t, what, call("denied"), ErrPolicy)
			want(t, what, call("denied/x"), ErrPolicy)
		}
		want(t, "link", errOf(sub.OpenFileNoFollow("lk", 0, 0)), ErrSymlink)
		dir, name, err := sub.OpenParent("in/new")
		must(t, err)
		if name != "dir/new" {
			t.Errorf("parent of %q", name)
		}
		refuse = true
		before := seal(t, base+"/root")
		want(t, "RemoveSame", sub.RemoveSame("f", f), ErrPolicy)
		want(t, "MoveSame", sub.MoveSame("f", "g", f), ErrPolicy)
		want(t, "CreateUnnamed", errOf(sub.CreateUnnamed(".")), ErrPolicy)
		want(t, "Put below OpenParent", verbs(dir)["Put"]("x"), ErrPolicy)
		if seal(t, base+"/root") != before {
			t.Error("changed")
		}
		refuse = false
		unnamed, err := sub.CreateUnnamed(".")
		must(t, err)
		refuse = true
		want(t, "NameUnnamed", sub.NameUnnamed(unnamed, "named"), ErrPolicy)
		must(t, unnamed.Close())
		sub.Revoke()
		want(t, "Identity", errOf(sub.Identity()), ErrRevoked)
		want(t, "OpenParent's root", verbs(dir)["ReadFile"]("file"), ErrRevoked)
		must(t, dir.Close())
	})
}

func errOf[T any](_ T, err error) error { return err }
