package caproot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
)

// 64 goroutines on grants of grants spend exactly what there is; run with -race.
func TestBudgetIsExact(t *testing.T) {
	notUnderWine(t, "does not tell that an open file was removed")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		const size, files = 10, 50
		top, err := r.Grant(".", Grant{Policy: Workspace(), Budget: &Budget{Bytes: size * files, Files: NoLimit}})
		must(t, err)
		mid, err := top.Grant(".", Grant{Policy: Workspace(), Budget: &Budget{Bytes: NoLimit, Files: NoLimit}})
		must(t, err)
		var mu sync.Mutex
		made := 0
		var wg sync.WaitGroup
		for n := range 64 {
			at := mid
			if n%2 == 0 {
				at = top
			}
			wg.Go(func() {
				for k := range 3 {
					_, err := at.Put(fmt.Sprintf("dir/p%d-%d", n, k), make([]byte, size), PutOptions{Durability: DurabilityNone})
					if err != nil && !errors.Is(err, ErrTooLarge) {
						t.Error(err)
					}
					if err == nil {
						mu.Lock()
						made++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if made != files {
			t.Errorf("%d puts, want %d", made, files)
		}
		if spent := top.Spent(); spent != (Budget{size * files, files}) {
			t.Errorf("spent %+v", spent)
		}
		must(t, top.RemoveAll("dir"))
		_, err = top.Put("one", []byte("1"), PutOptions{})
		want(t, "a removal gives nothing back", err, ErrTooLarge)
		must(t, mid.Close())
		must(t, top.Close())
	})
}

// What each verb spends; errors give back unless something was published.
func TestBudgetOfVerbs(t *testing.T) {
	needsLinks(t)
	granted(t, Compat(), Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}}, func(t *testing.T, sub *Root, base string) {
		in := Compat()
		in.MaxWriteBytes = 100
		small, err := sub.Grant(".", Grant{Policy: in})
		must(t, err)
		defer small.Close()
		put := func(n string, size int, o PutOptions) func() error {
			return func() error { _, err := small.Put(n, make([]byte, size), o); return err }
		}
		from := func(src io.Reader) func() error {
			return func() error { _, err := small.PutFrom(context.Background(), "from", src, PutOptions{}); return err }
		}
		must(t, os.Mkdir(base+"/root/full", 0o755))
		for _, c := range []struct {
			what string
			do   func() error
			want Budget
			err  error
		}{
			{"new", put("new", 7, PutOptions{}), Budget{7, 1}, nil},
			{"over", put("new", 5, PutOptions{}), Budget{5, 1}, nil},
			{"exists", put("new", 5, PutOptions{NoReplace: true}), Budget{}, os.ErrExist},
			{"directory", put("full", 5, PutOptions{}), Budget{}, syscall.EISDIR},
			{"too large", put("big", 101, PutOptions{}), Budget{}, ErrTooLarge},
			{"no parent", put("x/y", 5, PutOptions{}), Budget{}, os.ErrNotExist},
			{"parents", put("x/y", 5, PutOptions{Parents: true}), Budget{5, 2}, nil},
			{"from", from(strings.NewReader("abc")), Budget{3, 1}, nil},
			{"from a bad reader", from(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrUnexpectedEOF))), Budget{}, io.ErrUnexpectedEOF},
			{"write", func() error { return small.WriteFile("w", []byte("1234"), 0o600) }, Budget{4, 1}, nil},
			{"write again", func() error { return small.WriteFile("w", []byte("1234"), 0o600) }, Budget{4, 0}, nil},
			{"write to a directory", func() error { return small.WriteFile("dir", []byte("1234"), 0o600) }, Budget{}, syscall.EISDIR},
			{"append", func() error { _, err := small.Append("w", []byte("56"), AppendOptions{}); return err }, Budget{2, 0}, nil},
			{"truncate", func() error { return small.Truncate("w", 10) }, Budget{4, 0}, nil},
			{"truncate down", func() error { return small.Truncate("w", 1) }, Budget{}, nil},
			{"mkdir", func() error { return small.Mkdir("d", 0o700) }, Budget{0, 1}, nil},
			{"mkdir again", func() error { return small.Mkdir("d", 0o700) }, Budget{}, os.ErrExist},
			{"mkdirall", func() error { return small.MkdirAll("d/e/f", 0o700) }, Budget{0, 2}, nil},
			{"symlink", func() error { return small.Symlink("w", "s") }, Budget{0, 1}, nil},
			{"link", func() error { return small.Link("w", "l") }, Budget{0, 1}, nil},
			{"link again", func() error { return small.Link("w", "l") }, Budget{}, os.ErrExist},
			{"rename", func() error { return small.Rename("w", "w2") }, Budget{}, nil},
			{"remove", func() error { return small.Remove("w2") }, Budget{}, nil},
			{"removeall", func() error { return small.RemoveAll("d") }, Budget{}, nil},
			{"create", func() error { _, err := small.Create("c"); return err }, Budget{}, ErrPolicy},
			{"createtemp", func() error { _, _, err := small.CreateTemp("", "c"); return err }, Budget{}, ErrPolicy},
			{"view", func() error { return writeView(small, "v", "abc") }, Budget{3, 1}, nil},
			{"view again", func() error { return writeView(small, "v", "abc") }, Budget{3, 0}, nil},
			{"abort", func() error { return stageAndAbort(small) }, Budget{}, nil},
		} {
			before, entries := sub.Spent(), entryNames(t, base+"/root")
			err := c.do()
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v, want %v", c.what, err, c.err)
			}
			after := sub.Spent()
			if got := (Budget{after.Bytes - before.Bytes, after.Files - before.Files}); got != c.want {
				t.Errorf("%s spent %+v, want %+v", c.what, got, c.want)
			}
			if c.err != nil && entryNames(t, base+"/root") != entries {
				t.Errorf("%s left %s, was %s", c.what, entryNames(t, base+"/root"), entries)
			}
		}
	})
}

func entryNames(t *testing.T, dir string) string {
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func writeView(r *Root, name, data string) error {
	f, err := r.OpenView(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(data))
	return errors.Join(err, f.Close())
}

func stageAndAbort(r *Root) error {
	s, err := r.Stage("aborted", PutOptions{})
	if err != nil {
		return err
	}
	_, err = s.Write([]byte("abc"))
	return errors.Join(err, s.Abort())
}

// A publication that fails at any call is charged exactly if it happened.
func TestBudgetUnderFaults(t *testing.T) {
	notUnderWine(t, "does not tell that an open file was removed")
	for n := 1; n <= 60; n++ {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/f", []byte("old"), 0o644))
		r, err := Open(dir, Workspace())
		must(t, err)
		sub, err := r.Grant(".", Grant{Policy: Workspace(), Budget: &Budget{NoLimit, NoLimit}})
		must(t, err)
		sub.sys = &faultSystem{system: sub.sys, left: n}
		_, err = sub.Put("f", []byte("new!"), PutOptions{Durability: DurabilityDir})
		data, rerr := os.ReadFile(dir + "/f")
		must(t, rerr)
		spent := sub.Spent()
		if string(data) == "new!" && spent != (Budget{4, 1}) || string(data) == "old" && spent != (Budget{}) && !unproved(spent) {
			t.Errorf("fault %d: content %q, spent %+v, %v", n, data, spent, err)
		}
		must(t, sub.Close())
		must(t, r.Close())
		if err == nil {
			return
		}
	}
	t.Error("60 faults and still not through")
}

func TestEvents(t *testing.T) {
	newline := `level=INFO msg=caproot.failed verb=read path="no\nne" code=not-exist`
	if filepath.Separator == '\\' { // Windows has no such names
		newline = `level=WARN msg=caproot.refused verb=read path="no\nne" code=name`
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "error" {
				return slog.Attr{}
			}
			return a
		}}))
		top, err := r.Grant(".", Grant{Policy: Workspace(), Observe: LogEvents(logger), Deny: []string{"secret"}})
		must(t, err)
		sub, err := top.Grant(linked(t), Grant{Policy: Workspace(), Budget: &Budget{Bytes: 4, Files: 9}})
		must(t, err)
		for _, c := range []struct {
			do   func() error
			want string
		}{
			{func() error { return verbs(sub)["Put"]("p") }, "level=INFO msg=caproot.done verb=put dir=dir path=p"},
			{func() error { _, err := sub.Put("q", make([]byte, 9), PutOptions{}); return err },
				"level=WARN msg=caproot.refused verb=put dir=dir path=q code=too-large"},
			{func() error { return verbs(top)["Put"]("secret") }, "level=WARN msg=caproot.refused verb=put path=secret code=policy"},
			{func() error { return verbs(top)["ReadFile"]("no\nne") }, newline},
			{func() error { return verbs(top)["ReadFile"]("../x") }, `level=WARN msg=caproot.refused verb=read path=../x code=escape`},
			{func() error { return sub.Rename("p", "p2") }, "level=INFO msg=caproot.done verb=rename dir=dir path=p to=p2"},
			{func() error { return sub.Rename("p2", "../x") }, "level=WARN msg=caproot.refused verb=rename dir=dir path=p2 to=../x code=escape"},
			{func() error { return sub.Rename("p2", "a\x00b") }, `level=WARN msg=caproot.refused verb=rename dir=dir path=p2 to="a\x00b" code=name`},
			{func() error { return sub.Link("p2", "p3") }, "level=INFO msg=caproot.done verb=link dir=dir path=p2 to=p3"},
			{func() error { return sub.Symlink("/etc", "s") }, "level=WARN msg=caproot.refused verb=symlink dir=dir path=s code=escape"},
			{func() error { return writeView(sub, "v", "12345") },
				"level=INFO msg=caproot.done verb=open dir=dir path=v|level=WARN msg=caproot.refused verb=write dir=dir path=v code=too-large"},
			{func() error { s, err := sub.Stage("st", PutOptions{}); must(t, err); _, err = s.Commit(); return err },
				"level=INFO msg=caproot.done verb=put dir=dir path=st"},
			{func() error { sub.Revoke(); sub.Revoke(); return nil }, "level=INFO msg=caproot.revoked verb=revoke dir=dir"},
			{func() error { return verbs(sub)["ReadFile"]("p2") }, "level=WARN msg=caproot.refused verb=read dir=dir path=p2 code=revoked"},
		} {
			out.Reset()
			c.do()
			if got := strings.ReplaceAll(strings.TrimSpace(out.String()), "\n", "|"); got != c.want {
				t.Errorf("logged %s\nwant   %s", got, c.want)
			}
		}
		must(t, sub.Close())
		must(t, top.Close())
	})
}

// An observer that panics, or uses its own grant, leaves nothing counted.
func TestObserverCannotBreakAGrant(t *testing.T) {
	var sub *Root
	granted(t, Workspace(), Grant{Policy: Workspace(), Observe: func(e Event) {
		if e.Verb == "mkdir" {
			sub.ReadFile("f")
			panic("observer")
		}
	}}, func(t *testing.T, g *Root, base string) {
		sub = g
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			g.Mkdir("made", 0o700)
		}()
		if ok, err := g.Exists("made"); !ok || err != nil {
			t.Errorf("the observer changed the outcome: %v %v", ok, err)
		}
		must(t, g.Wait(context.Background()))
	})
}

// unproved: when the call that would prove the stage private fails itself, the
// charge stays.
func unproved(b Budget) bool { return b == Budget{4, 1} }
