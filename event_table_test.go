package caproot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// witness is a grant of a tree and what its observer was told: verb, path and code.
type witness struct {
	*Root
	dir    string
	events []string
}

func (g *witness) observe(e Event) {
	text := strings.Join([]string{strings.TrimPrefix(e.Name, "caproot."), e.Verb, e.Path}, " ")
	if e.To != "" {
		text += " " + e.To
	}
	if e.Code != "" {
		text += " " + e.Code
	}
	if (e.Err == nil) != (e.Code == "") {
		text += " with another error"
	}
	g.events = append(g.events, text)
}

// entry finds an entry of the directory by a walk or a listing.
func (g *witness) entry(t *testing.T, name string) Entry {
	for e, err := range g.Walk(t.Context(), ".", WalkOptions{}) {
		must(t, err)
		if e.Path() == name {
			return e
		}
	}
	t.Fatalf("no %s", name)
	return Entry{}
}

func (g *witness) listed(t *testing.T, dir, name string) fs.DirEntry {
	entries, err := g.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.Name() == name {
			return e
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

// eventCases has calls whose answer comes late, or in parts, and what is told of them.
var eventCases = map[string]struct {
	do   func(t *testing.T, g *witness)
	want string
}{
	"Info of a listing": {func(t *testing.T, g *witness) { g.listed(t, "dir", "file").Info() }, "done readdir dir|done stat dir/file"},
	"Info of a listing of a replaced directory": {func(t *testing.T, g *witness) {
		e := g.listed(t, "dir", "file")
		must(t, os.Rename(g.dir+"/dir", g.dir+"/old"))
		must(t, os.Mkdir(g.dir+"/dir", 0o755))
		_, err := e.Info()
		want(t, "Info", err, ErrChanged)
	}, "done readdir dir|refused stat dir/file changed"},
	"Info of a listing, revoked": {func(t *testing.T, g *witness) { e := g.listed(t, "dir", "file"); g.Revoke(); e.Info() },
		"done readdir dir|revoked revoke |refused stat dir/file revoked"},
	"Info of a listing, gone": {func(t *testing.T, g *witness) {
		e := g.listed(t, "dir", "file")
		must(t, os.Remove(g.dir+"/dir/file"))
		e.Info()
	},
		"done readdir dir|failed stat dir/file not-exist"},
	"Info of a walk": {func(t *testing.T, g *witness) {
		for e := range g.Walk(t.Context(), "dir", WalkOptions{}) {
			e.Info()
		}
	}, "done stat dir/file|done walk dir"},
	"Info read by the walk": {func(t *testing.T, g *witness) {
		for e := range g.Walk(t.Context(), "dir", WalkOptions{Info: true}) {
			e.Info()
		}
	}, "done stat dir/file|done walk dir"},
	"Info after a walk":    {func(t *testing.T, g *witness) { g.entry(t, "dir").Info() }, "done walk .|refused stat dir closed"},
	"Open after a walk":    {func(t *testing.T, g *witness) { g.entry(t, "dir").Open() }, "done walk .|refused open dir closed"},
	"Info in a revocation": {func(t *testing.T, g *witness) { inWalk(t, g, func(e Entry) { g.Revoke(); e.Info() }) }, "revoked revoke |refused stat dir/file revoked|done walk dir"},
	"Open in a walk": {func(t *testing.T, g *witness) {
		inWalk(t, g, func(e Entry) { f, err := e.Open(); must(t, err); f.Close() })
	}, "done open dir/file|done walk dir"},
	"walk to its limit": {func(t *testing.T, g *witness) {
		for range g.Walk(t.Context(), ".", WalkOptions{MaxEntries: 1}) {
		}
	}, "refused walk . too-large"},
	"walk with errors inline": {func(t *testing.T, g *witness) {
		for range g.Walk(t.Context(), "dir", WalkOptions{InlineErrors: true, Filter: func(Entry) WalkStep { return WalkLeaf + 1 }}) {
		}
	}, "refused walk dir option"},
	"walk by workers": {func(t *testing.T, g *witness) {
		for range g.Walk(t.Context(), "dir", WalkOptions{Workers: 3, Filter: func(Entry) WalkStep { return WalkLeaf + 1 }}) {
		}
	}, "refused walk dir option"},
	"walk of nothing": {func(t *testing.T, g *witness) {
		for range g.Walk(t.Context(), "no", WalkOptions{}) {
		}
	}, "failed walk no not-exist"},
	"WalkDir without function": {func(t *testing.T, g *witness) { g.WalkDir("dir", nil) }, "refused walk dir option"},
	"Grant": {func(t *testing.T, g *witness) {
		s, err := g.Grant("dir", Grant{Policy: Policy{Containment: Walked}})
		must(t, err)
		s.Close()
	}, "granted grant "},
	"Grant of nothing":  {func(t *testing.T, g *witness) { g.Grant("no", Grant{}) }, "failed grant no not-exist"},
	"Grant, odd policy": {func(t *testing.T, g *witness) { g.Grant(".", Grant{Policy: Policy{MaxReadBytes: -1}}) }, "refused grant . option"},
	"Identity":          {func(t *testing.T, g *witness) { g.Identity() }, "done identity ."},
	"Identity, revoked": {func(t *testing.T, g *witness) { g.Revoke(); g.Identity() }, "revoked revoke |refused identity . revoked"},
	"Filter panics": {func(t *testing.T, g *witness) {
		defer func() { recover() }()
		for range g.Walk(t.Context(), "dir", WalkOptions{Filter: func(Entry) WalkStep { panic("filter") }}) {
		}
	}, "failed walk dir io"},
	"loop over a walk panics": {func(t *testing.T, g *witness) {
		defer func() {
			if v := recover(); v != "loop" {
				t.Errorf("panicked with %v", v)
			}
		}()
		for range g.Walk(t.Context(), "dir", WalkOptions{}) {
			panic("loop")
		}
	}, "failed walk dir io"},
	"WalkDir, stopped": {func(t *testing.T, g *witness) {
		g.WalkDir("dir", func(string, fs.DirEntry, error) error { return fs.SkipAll })
	}, "done stat dir"},
	"Glob":               {func(t *testing.T, g *witness) { g.Glob("d*") }, "done walk ."},
	"Glob of one":        {func(t *testing.T, g *witness) { g.Glob("no") }, "failed lstat no not-exist"},
	"Glob, malformed":    {func(t *testing.T, g *witness) { g.Glob("[") }, "refused glob [ name"},
	"FS":                 {func(t *testing.T, g *witness) { fs.ReadFile(g.FS(), "f") }, "done read f"},
	"FS, not its name":   {func(t *testing.T, g *witness) { fs.ReadFile(g.FS(), "/f") }, "refused read /f name"},
	"FS, open":           {func(t *testing.T, g *witness) { g.FS().Open("a//b") }, "refused open a//b name"},
	"FS, listing":        {func(t *testing.T, g *witness) { fs.ReadDir(g.FS(), "..") }, "refused readdir .. name"},
	"CreateTemp pattern": {func(t *testing.T, g *witness) { g.CreateTemp("", "a/b") }, "refused createtemp a/b name"},
	"unknown flag":       {func(t *testing.T, g *witness) { g.OpenView("f", 1<<30, 0) }, "refused open f name"},
	"unknown flag, File": {func(t *testing.T, g *witness) { g.OpenFile("f", 1<<30, 0) }, "refused open f name"},
	"File": {func(t *testing.T, g *witness) {
		f, err := g.OpenView("f", 0, 0)
		must(t, err)
		io.ReadAll(f)
		f.ReadAt(make([]byte, 1), -1)
		f.Close()
		f.Close()
	}, "done open f|refused readat f option|refused close f closed"},
	"Exchange": {func(t *testing.T, g *witness) { g.Exchange("f", "../x", MoveOptions{}) }, "refused exchange f ../x escape"},
	"Receipt":  {func(t *testing.T, g *witness) { g.Receipt("f", 1<<7) }, "refused receipt f option"},
}

// publishCases are those of content on its way.
var publishCases = map[string]struct {
	do   func(t *testing.T, g *witness)
	want string
}{
	"Commit":              {func(t *testing.T, g *witness) { s := g.staged(t, "ab"); s.Commit(); s.Commit(); s.Abort(); s.Close() }, "done put s"},
	"Abort":               {func(t *testing.T, g *witness) { s := g.staged(t, "ab"); s.Abort(); s.Abort(); s.Close() }, ""},
	"too long, committed": {func(t *testing.T, g *witness) { s := g.staged(t, "0123456789"); s.Commit(); s.Close() }, "refused put s too-large"},
	"too long, aborted":   {func(t *testing.T, g *witness) { s := g.staged(t, "0123456789"); s.Close(); s.Close() }, "refused put s too-large"},
	"File refused":        {func(t *testing.T, g *witness) { s := g.staged(t, "ab"); s.File(); s.Commit() }, "refused file s policy|done put s"},
	"Write after Commit":  {func(t *testing.T, g *witness) { s := g.staged(t, "ab"); s.Commit(); s.Write(nil) }, "done put s|refused write s closed"},
	"Commit, revoked":     {func(t *testing.T, g *witness) { s := g.staged(t, "ab"); g.Revoke(); s.Commit() }, "revoked revoke |refused put s revoked"},
	"PutFrom, reader fails": {func(t *testing.T, g *witness) {
		g.PutFrom(t.Context(), "s", iotest.ErrReader(io.ErrClosedPipe), PutOptions{})
	}, "failed put s io"},
	"PutFrom, too long": {func(t *testing.T, g *witness) {
		g.PutFrom(t.Context(), "s", strings.NewReader("0123456789"), PutOptions{})
	}, "refused put s too-large"},
	"PutFrom, canceled": {func(t *testing.T, g *witness) { g.PutFrom(canceledContext(), "s", strings.NewReader(""), PutOptions{}) }, "refused put s canceled"},
	"PutFrom":           {func(t *testing.T, g *witness) { g.PutFrom(t.Context(), "s", strings.NewReader("a"), PutOptions{}) }, "done put s"},
	"CopyIn": {func(t *testing.T, g *witness) {
		g.CopyIn(t.Context(), "s", Source{Root: g.Root, Name: "f"}, CopyOptions{})
	}, "done read f|done copyin s"},
	"CopyIn of nothing": {func(t *testing.T, g *witness) {
		g.CopyIn(t.Context(), "s", Source{Root: g.Root, Name: "no"}, CopyOptions{})
	},
		"failed read no not-exist|failed copyin s not-exist"},
	"CopyIn, canceled": {func(t *testing.T, g *witness) {
		g.CopyIn(canceledContext(), "s", Source{Root: g.Root, Name: "f"}, CopyOptions{})
	}, "refused copyin s canceled"},
	"CopyTree into itself": {func(t *testing.T, g *witness) { g.CopyTree(t.Context(), "dir/t", g.Root, "dir", TreeCopyOptions{}) }, "refused copytree dir/t name"},
	"Batch": {func(t *testing.T, g *witness) {
		b := g.batch(t, "a", "b")
		b.Commit(t.Context())
		b.Commit(t.Context())
		b.Abort()
	},
		"done put a|done put b|refused batch . closed"},
	"Batch, canceled": {func(t *testing.T, g *witness) { g.batch(t, "a", "b").Commit(canceledContext()) }, "refused batch . canceled"},
	"Batch, revoked":  {func(t *testing.T, g *witness) { b := g.batch(t, "a"); g.Revoke(); b.Commit(t.Context()) }, "revoked revoke |refused batch . revoked"},
	"Batch, aborted":  {func(t *testing.T, g *witness) { g.batch(t, "a", "b").Abort() }, ""},
	"Batch, the second in the way": {func(t *testing.T, g *witness) {
		b := g.batch(t, "a", "b", "c")
		must(t, os.Mkdir(g.dir+"/b", 0o700))
		b.Commit(t.Context())
	}, "failed put b is-dir"},
	"Batch, too long": {func(t *testing.T, g *witness) { g.Batch(BatchOptions{}).Put("a", make([]byte, 9), PutOptions{}) }, "refused put a too-large"},
	"Batch, no name":  {func(t *testing.T, g *witness) { g.Batch(BatchOptions{}).Put("../a", nil, PutOptions{}) }, "refused put ../a escape"},
}

func inWalk(t *testing.T, g *witness, do func(Entry)) {
	for e, err := range g.Walk(t.Context(), "dir", WalkOptions{}) {
		must(t, err)
		do(e)
		break
	}
}

func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (g *witness) staged(t *testing.T, content string) *Staged {
	s, err := g.Stage("s", PutOptions{})
	must(t, err)
	s.Write([]byte(content))
	return s
}

func (g *witness) batch(t *testing.T, names ...string) *Batch {
	b := g.Batch(BatchOptions{})
	for _, name := range names {
		must(t, b.Put(name, nil, PutOptions{}))
	}
	return b
}

// Each refusal and each publication is told once, under its name and with its
// code, whenever it comes.
func TestEventOfEachAnswer(t *testing.T) {
	for _, cases := range []map[string]struct {
		do   func(t *testing.T, g *witness)
		want string
	}{eventCases, publishCases, copyCases} {
		for what, c := range cases {
			t.Run(what, func(t *testing.T) { eventsOf(t, c.do, c.want) })
		}
	}
}

func eventsOf(t *testing.T, do func(*testing.T, *witness), want string) {
	g := &witness{dir: t.TempDir()}
	must(t, os.Mkdir(g.dir+"/dir", 0o755))
	must(t, os.WriteFile(g.dir+"/dir/file", nil, 0o644))
	must(t, os.WriteFile(g.dir+"/f", []byte("f"), 0o644))
	r, err := Open(g.dir, Workspace())
	must(t, err)
	defer r.Close()
	p := Workspace()
	p.MaxWriteBytes = 8
	g.Root, err = r.Grant(".", Grant{Policy: p, Observe: g.observe})
	must(t, err)
	defer g.Root.Close()
	g.events = nil
	do(t, g)
	if got := strings.Join(g.events, "|"); got != want {
		t.Errorf("told %q\nwant %q", got, want)
	}
	if err := g.Wait(context.Background()); err != nil && !errors.Is(err, ErrRevoked) {
		t.Error(err)
	}
}
