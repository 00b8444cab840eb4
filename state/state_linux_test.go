package state

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// No update is lost, whatever spelling of the file is used.
func TestUpdatesTakeTurns(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		p := caproot.Workspace()
		p.Links, p.MutationLinks = caproot.LinksFollow, caproot.LinksFollow
		r := openRoot(t, dir, p)
		must(t, os.MkdirAll(dir+"/a/b", 0o755))
		must(t, os.Symlink("a/b", dir+"/short"))
		must(t, os.Symlink("a/b/file", dir+"/alias"))
		const times = 20
		var all sync.WaitGroup
		for _, name := range []string{"a/b/file", "a/../a/./b/file", "short/file", "alias"} {
			all.Go(func() {
				for range times {
					if err := Update(context.Background(), r, name, add, o); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		c, err := Read[counter](r, "alias")
		if err != nil || c.N != 4*times {
			t.Errorf("%+v, %v", c, err)
		}
		entries, err := r.ReadDir("a/b")
		must(t, err)
		if len(entries) != 1 {
			t.Errorf("left over: %v", entries)
		}
	})
}

func TestUnknownFieldsSurvive(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir, caproot.Workspace())
	const before = `{"big":12345678901234567890,"float":1.10,"html":"<&>","known":1,"nested":{"z":[null,true],"a":1e400}}`
	for name, update := range map[string]func() error{
		"any": func() error {
			return Update(context.Background(), r, "f", func(m *map[string]any) error { (*m)["known"] = 2; return nil }, Options{})
		},
		"raw": func() error {
			return Update(context.Background(), r, "f", func(m *map[string]json.RawMessage) error {
				(*m)["known"] = json.RawMessage("2")
				return nil
			}, Options{})
		},
	} {
		must(t, os.WriteFile(dir+"/f", []byte(before), 0o640))
		must(t, update())
		after, err := Read[json.RawMessage](r, "f")
		must(t, err)
		squeezed := strings.NewReplacer(" ", "", "\n", "").Replace(string(after))
		wanted := strings.Replace(before, `"known":1`, `"known":2`, 1)
		// A map has its keys in order.
		wanted = strings.Replace(wanted, `{"z":[null,true],"a":1e400}`, `{"a":1e400,"z":[null,true]}`, 1)
		if name == "raw" {
			wanted = strings.Replace(wanted, `{"a":1e400,"z":[null,true]}`, `{"z":[null,true],"a":1e400}`, 1)
		}
		if squeezed != wanted {
			t.Errorf("%s:\n%s, want\n%s", name, squeezed, wanted)
		}
		if info, err := os.Stat(dir + "/f"); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

// What cannot be read is not overwritten; what is missing is the zero value.
func TestUnreadable(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		p := caproot.Workspace()
		p.MaxReadBytes = 100
		r := openRoot(t, dir, p)
		for content, wanted := range map[string]error{
			"": io.ErrUnexpectedEOF, `{"N":`: io.ErrUnexpectedEOF, `{"N":1} {}`: nil, `[]`: nil,
			`{"N":` + strings.Repeat(" ", 100) + `1}`: caproot.ErrTooLarge,
		} {
			must(t, os.WriteFile(dir+"/f", []byte(content), 0o600))
			err := Update(context.Background(), r, "f", add, o)
			if err == nil || wanted != nil && !errors.Is(err, wanted) {
				t.Errorf("%q: %v", content, err)
			}
			if after, err := os.ReadFile(dir + "/f"); err != nil || string(after) != content {
				t.Errorf("%q became %q, %v", content, after, err)
			}
		}
		if c, err := Read[counter](r, "missing"); err != nil || c.N != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		want(t, "no directory", Update(context.Background(), r, "d/f", add, o), fs.ErrNotExist)
		o.Parents = true
		must(t, Update(context.Background(), r, "d/f", add, o))
		must(t, os.Symlink("f", dir+"/link"))
		want(t, "link", Update(context.Background(), r, "link", add, o), caproot.ErrSymlink)
		if err := Update(context.Background(), r, "d", add, o); err == nil {
			t.Error("a directory was updated")
		}
		want(t, "outside", Update(context.Background(), r, "../f", add, o), caproot.ErrEscape)
		want(t, "timeout", Update(context.Background(), r, "f", add, Options{Timeout: -1}), lock.ErrOption)
	})
}

// A lock that was lost while the function ran lets nothing be written, and the
// error of the function is the caller's own.
func TestLostMeanwhile(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		r := openRoot(t, dir, caproot.Workspace())
		must(t, os.WriteFile(dir+"/f", []byte(`{"N":1}`), 0o600))
		err := Update(context.Background(), r, "f", func(c *counter) error {
			must(t, os.Remove(dir+"/f.lock"))
			return add(c)
		}, o)
		want(t, "lost", err, lock.ErrCompromised)
		mine := errors.New("mine")
		err = Update(context.Background(), r, "f", func(c *counter) error { return mine }, o)
		if err != mine {
			t.Errorf("%v", err)
		}
		err = Update(context.Background(), r, "f", func(c *counter) error {
			must(t, os.Remove(dir+"/f.lock"))
			return mine
		}, o)
		want(t, "function", err, mine)
		want(t, "release", err, lock.ErrCompromised)
		if data, err := os.ReadFile(dir + "/f"); err != nil || string(data) != `{"N":1}` {
			t.Errorf("%q, %v", data, err)
		}
	})
}
