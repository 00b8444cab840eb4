package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/caproot/caproot/identity"
)

// copyCases are those of whole trees.
var copyCases = map[string]struct {
	do   func(t *testing.T, g *witness)
	want string
}{
	"CopyFS": {func(t *testing.T, g *witness) {
		must(t, g.CopyFS("new", fstest.MapFS{"a/b": {Data: []byte("b")}, "c": {}}))
	}, "done mkdirall new/a|done put new/a/b|done put new/c|done copyfs new"},
	"CopyFS of nothing":        {func(t *testing.T, g *witness) { g.CopyFS("new", nil) }, "refused copyfs new option"},
	"CopyFS into its source":   {func(t *testing.T, g *witness) { g.CopyFS("dir/new", os.DirFS(g.dir)) }, "refused copyfs dir/new name"},
	"CopyFS over a file":       {func(t *testing.T, g *witness) { g.CopyFS("dir", fstest.MapFS{"file": {}}) }, "failed put dir/file exist|failed copyfs dir exist"},
	"CopyFS of a special file": {func(t *testing.T, g *witness) { g.CopyFS("new", fstest.MapFS{"a": {Mode: fs.ModeNamedPipe}}) }, "refused copyfs new special"},
	"CopyFS to a file":         {func(t *testing.T, g *witness) { g.CopyFS("f", fstest.MapFS{}) }, "failed copyfs f not-dir"},
	"CopyFS, too long": {func(t *testing.T, g *witness) { g.CopyFS(".", fstest.MapFS{"a": {Data: make([]byte, 9)}}) },
		"refused put ./a too-large|refused copyfs . too-large"},
	"CopyFS, revoked": {func(t *testing.T, g *witness) { g.Revoke(); g.CopyFS("new", fstest.MapFS{"a": {}}) }, "revoked revoke |refused copyfs new revoked"},
	"CopyFS, source panics": {func(t *testing.T, g *witness) {
		defer func() { recover() }()
		g.CopyFS("new", panickingFS{})
	}, "failed copyfs new io"},
	"CopyTree": {func(t *testing.T, g *witness) { g.copyTree(t, TreeCopyOptions{}) },
		"done mkdir dir|done copyin dir/file|done read src/dir/file|done walk src|done copytree dst"},
	"CopyTree over a tree": {func(t *testing.T, g *witness) {
		must(t, os.MkdirAll(g.dir+"/dst/dir", 0o755))
		g.copyTree(t, TreeCopyOptions{File: CopyOptions{KeepMode: true}})
	}, "done copyin dir/file|done read src/dir/file|done walk src|done copytree dst"},
	"CopyTree over a file": {func(t *testing.T, g *witness) {
		must(t, os.Mkdir(g.dir+"/dst", 0o755))
		must(t, os.WriteFile(g.dir+"/dst/dir", nil, 0o644))
		g.copyTree(t, TreeCopyOptions{})
	}, "failed mkdir dir not-dir|done walk src|failed copytree dst not-dir"},
	"CopyTree with modes": {func(t *testing.T, g *witness) { g.copyTree(t, TreeCopyOptions{File: CopyOptions{KeepMode: true}}) },
		"done mkdir dir|done copyin dir/file|done read src/dir/file|done walk src|done copytree dst"},
	"CopyTree of what is too long": {func(t *testing.T, g *witness) {
		must(t, os.Mkdir(g.dir+"/src", 0o755))
		must(t, os.WriteFile(g.dir+"/src/f", make([]byte, 9), 0o644))
		p := g.Policy()
		p.MaxReadBytes = 8
		src, err := g.Grant("src", Grant{Policy: p})
		must(t, err)
		defer src.Close()
		g.events = nil
		g.CopyTree(t.Context(), "dst", src, ".", TreeCopyOptions{})
	}, "refused read f too-large|done walk .|refused copytree dst too-large"},
	"CopyTree of nothing": {func(t *testing.T, g *witness) { g.CopyTree(t.Context(), "dst", g.Root, "no", TreeCopyOptions{}) }, "failed walk no not-exist|failed copytree dst not-exist"},
	"CopyTree from above": {func(t *testing.T, g *witness) { g.CopyTree(t.Context(), "dst", g.Root, "../x", TreeCopyOptions{}) }, "refused walk ../x escape|refused copytree dst escape"},
	"CopyTree of no Root": {func(t *testing.T, g *witness) { g.CopyTree(t.Context(), "dst", nil, ".", TreeCopyOptions{}) }, "refused copytree dst closed"},
	"CopyTree, Copied panics": {func(t *testing.T, g *witness) {
		defer func() { recover() }()
		g.CopyTree(t.Context(), "dst", g.Root, "dir", TreeCopyOptions{Copied: copiedPanics})
	}, "done copyin file|failed read dir/file io|failed walk dir io|failed copytree dst io"},
}

// listener keeps what an observer is told.
type listener struct {
	mu     sync.Mutex
	events []Event
}

func (l *listener) hear(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// copyTree copies src, which has one file in a directory, to dst.
func (g *witness) copyTree(t *testing.T, o TreeCopyOptions) {
	must(t, os.MkdirAll(g.dir+"/src/dir", 0o755))
	must(t, os.WriteFile(g.dir+"/src/dir/file", []byte("f"), 0o644))
	g.CopyTree(t.Context(), "dst", g.Root, "src", o)
}

func copiedPanics(identity.Receipt) { panic("Copied") }

type panickingFS struct{}

func (panickingFS) Open(string) (fs.File, error) { panic("Open") }

// A link is read at the source and made at the copy; one that the copy may not
// have is told too.
func TestEventsOfCopiedLinks(t *testing.T) {
	needsLinks(t)
	for target, want := range map[string]string{
		"file":  "done readlink src/lk|done symlink lk|done walk src|done copytree dst",
		"../..": "done readlink src/lk|refused symlink lk escape|done walk src|refused copytree dst escape",
	} {
		eventsOf(t, func(t *testing.T, g *witness) {
			must(t, os.Mkdir(g.dir+"/src", 0o755))
			symlink(t, target, g.dir+"/src/lk")
			g.CopyTree(t.Context(), "dst", g.Root, "src", TreeCopyOptions{Symlinks: LinksKeep})
		}, want)
	}
}

// A file's second name is told once, whether it replaces a file or not.
func TestEventsOfCopiedNames(t *testing.T) {
	for _, there := range []bool{false, true} {
		dir := t.TempDir()
		must(t, os.MkdirAll(dir+"/src", 0o755))
		must(t, os.MkdirAll(dir+"/dst", 0o755))
		must(t, os.WriteFile(dir+"/src/a", []byte("a"), 0o644))
		if err := os.Link(dir+"/src/a", dir+"/src/b"); err != nil {
			t.Skip("no hard links here: ", err)
		}
		if there {
			must(t, os.WriteFile(dir+"/dst/a", nil, 0o644))
			must(t, os.WriteFile(dir+"/dst/b", nil, 0o644))
		}
		r, err := Open(dir, Compat())
		must(t, err)
		defer r.Close()
		var from, to listener
		src, err := r.Grant("src", Grant{Policy: Compat(), Observe: from.hear})
		must(t, err)
		defer src.Close()
		dst, err := r.Grant("dst", Grant{Policy: Compat(), Observe: to.hear})
		must(t, err)
		defer dst.Close()
		_, err = dst.CopyTree(t.Context(), ".", src, ".", TreeCopyOptions{Hardlinks: LinksKeep})
		must(t, err)
		from.told(t, "caproot.granted grant", "caproot.done read", "caproot.done read", "caproot.done walk")
		to.told(t, "caproot.granted grant", "caproot.done copyin", "caproot.done link", "caproot.done copytree")
	}
}

// told compares the names and verbs of what an observer heard.
func (l *listener) told(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, e := range l.events {
		got = append(got, e.Name+" "+e.Verb)
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %q\nwant %q", got, want)
	}
}

// Nil arguments and values that nothing opened have codes of their own: there is
// nothing wrong with a name.
func TestCodeOfNothing(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Compat())
	must(t, err)
	defer r.Close()
	var none context.Context
	for code, errs := range map[string][]error{
		"option": {
			errOf(r.PutFrom(none, "f", nil, PutOptions{})), errOf(r.PutFrom(t.Context(), "f", nil, PutOptions{})), errOf(r.RemoveTree(none, "f", TreeLimits{})),
			r.CopyFS("f", nil), r.WalkDir(".", nil), r.Wait(none), errOf(r.Fenced(nil)), r.CheckSame("f", nil), errOf(FromFile(nil, Compat())),
			errOf(r.CopyIn(t.Context(), "f", Source{}, CopyOptions{})), errOf(r.Grant(".", Grant{Policy: Policy{MaxReadBytes: -1}})),
			errOf(Open(dir, Policy{Links: 1 << 7})),
		},
		"closed": {
			(*Root)(nil).Mkdir("f", 0), (&Root{}).Close(), errOf((&Root{}).Identity()), (&File{}).Close(), errOf((&Staged{}).Commit()),
			errOf((&Batch{}).Commit(t.Context())), errOf(Entry{}.Open()), (*Watch)(nil).Close(),
			errOf(r.CopyTree(t.Context(), "f", nil, ".", TreeCopyOptions{})),
		},
	} {
		for i, err := range errs {
			if got := Code(err); got != code || !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s %d: code %q: %v", code, i, got, err)
			}
		}
	}
}
