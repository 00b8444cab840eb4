package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

// The demonstration fits a screen and leaves nothing behind.
func TestDemo(t *testing.T) {
	needsLinks(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	got := caprootRun(t, "", "demo")
	if got.code != 0 || got.err != "" {
		t.Fatalf("demo: %+v", got)
	}
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines, a screen has 24", len(lines))
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(got.out, "\noutside              unchanged: 9 objects ") || strings.Contains(got.out, "NOT REFUSED") {
		t.Errorf("demo says\n%s", got.out)
	}
	got = caprootRun(t, "", "demo", "--json")
	if got.code != 0 || strings.Count(got.out, `"refused":true`) < 15 || !strings.HasSuffix(got.out, "{\"outside\":\"unchanged\",\"objects\":9}\n") {
		t.Errorf("demo --json: %+v", got)
	}
	for line := range strings.Lines(got.out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Where links cannot be made the demonstration says that these attempts are not
// made, and of the others what became of them.
func TestDemoWithoutLinks(t *testing.T) {
	if makesLinks(t.TempDir()) {
		withoutLinksByHand(t)
		return
	}
	got := caprootRun(t, "", "demo")
	if got.code != exitDone || strings.Contains(got.out, "NOT REFUSED") || strings.Count(got.out, "not tried: no symbolic links here") != 4 {
		t.Errorf("demo: %+v", got)
	}
}

// withoutLinksByHand takes the links away as soon as they are planted, as a
// system does that says yes and makes none.
func withoutLinksByHand(t *testing.T) {
	var out strings.Builder
	d := planted(t, &out)
	for _, name := range []string{"out", "bait", "mine", "alias.txt"} {
		must(t, os.Remove(filepath.Join(d.base, demoPlugin, name)))
	}
	d.noSymlinks, d.noHardlinks = "no symbolic links here", "no hard links here"
	if err := d.run(); err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Contains(text, "NOT REFUSED") || strings.Count(text, "not tried: no ") != 5 || !strings.Contains(text, "unchanged: ") {
		t.Errorf("demo says\n%s", text)
	}
}

// planted is a demonstration before it runs.
func planted(t *testing.T, out io.Writer) *demo {
	t.Helper()
	d := &demo{s: &session{out: out, err: io.Discard}, base: t.TempDir(), self: built}
	must(t, d.plant())
	must(t, d.open())
	t.Cleanup(func() { d.plugin.Close(); d.host.Close() })
	return d
}

// Each way to change, add or take away what is outside is noticed.
func TestDemoSealNotices(t *testing.T) {
	for what, change := range map[string]struct {
		do   func(base string) error
		want string
	}{
		"nothing":   {func(string) error { return nil }, ""},
		"by plugin": {func(base string) error { return os.WriteFile(base+"/workspace/plugin/x", nil, 0o600) }, ""},
		"content": {func(base string) error {
			// Size and times are as they were.
			path := base + "/outside/secret.txt"
			info, err := os.Stat(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.ToUpper(demoText)), 0)
			}
			if err == nil {
				err = os.Chtimes(path, longAgo, info.ModTime())
			}
			return err
		}, "outside/secret.txt"},
		"mode":       {func(base string) error { return os.Chmod(base+"/workspace/host.txt", 0o600) }, "workspace/host.txt"},
		"time":       {func(base string) error { return os.Chtimes(base+"/outside/dir", longAgo, longAgo) }, "outside/dir"},
		"new file":   {func(base string) error { return os.WriteFile(base+"/outside/new", nil, 0o600) }, "outside/new"},
		"new on top": {func(base string) error { return os.Mkdir(base+"/new", 0o700) }, "new"},
		"removal":    {func(base string) error { return os.Remove(base + "/outside/dir/inner.txt") }, "outside/dir/inner.txt"},
		"of a tree":  {func(base string) error { return os.RemoveAll(base + "/outside/dir") }, "outside/dir/inner.txt"},
		"withheld":   {func(base string) error { return os.Truncate(base+"/workspace/plugin/private/key", 0) }, "workspace/plugin/private/key"},
		"a moved one": {func(base string) error {
			return os.Rename(base+"/workspace/plugin/private", base+"/workspace/plugin/p")
		}, "workspace/plugin/private"},
	} {
		t.Run(what, func(t *testing.T) {
			if what == "mode" {
				needsModes(t)
			}
			var out strings.Builder
			d := planted(t, &out)
			d.json = true
			before, err := takeSeal(d.base)
			must(t, err)
			must(t, change.do(d.base))
			if err := d.compare(before); (err != nil) != (change.want != "") {
				t.Errorf("the demonstration ends with %v", err)
			}
			var a around
			must(t, json.Unmarshal([]byte(out.String()), &a))
			if change.want == "" && a.Changed != nil || change.want != "" && !slices.Contains(a.Changed, change.want) {
				t.Errorf("changed: %q, want %q among them", a.Changed, change.want)
			}
		})
	}
}

// Reading is noticed too, where the file system keeps times of access.
func TestDemoSealNoticesReading(t *testing.T) {
	d := planted(t, io.Discard)
	path := filepath.Join(d.base, "workspace", "host.txt")
	must(t, os.Chtimes(path, longAgo, longAgo.AddDate(1, 0, 0)))
	was, err := describeMeta(path)
	must(t, err)
	_, err = os.ReadFile(path)
	must(t, err)
	if now, err := describeMeta(path); err != nil || now == was {
		t.Skipf("times of access are not kept here: %v", err)
	}
	before, err := takeSeal(d.base)
	must(t, err)
	_, err = os.ReadFile(path)
	must(t, err)
	if changed, err := before.changes(d.base); err != nil || !slices.Equal(changed, []string{"workspace/host.txt"}) {
		t.Errorf("changed: %q, %v", changed, err)
	}
}

// naive is a plugin's view as it is without a Root: by joined paths.
type naive struct {
	caproot.Plugin
	dir string
}

func (n *naive) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(n.dir, name)
}

func (n *naive) ReadFile(name string) ([]byte, error) {
	f, err := os.Open(n.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, demoBudget)) // a device never ends
}

func (n *naive) Put(name string, data []byte, _ caproot.PutOptions) (identity.Receipt, error) {
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		return identity.Receipt{}, err
	}
	return identity.Receipt{}, n.WriteFile(name, data, 0o644)
}

func (n *naive) WriteFile(name string, data []byte, perm os.FileMode) error {
	return os.WriteFile(n.path(name), data, perm)
}

func (n *naive) RemoveAll(name string) error               { return os.RemoveAll(n.path(name)) }
func (n *naive) Symlink(target, name string) error         { return os.Symlink(target, n.path(name)) }
func (n *naive) Rename(from, to string) error              { return os.Rename(n.path(from), n.path(to)) }
func (n *naive) Chmod(name string, mode os.FileMode) error { return os.Chmod(n.path(name), mode) }
func (n *naive) Sub(string, caproot.Grant) (caproot.Plugin, error) {
	return &naive{n.Plugin, n.dir}, nil
}

// With the twin that joins paths, every attempt but those that need no plugin
// succeeds or blocks, and the demonstration says so.
func TestDemoTwin(t *testing.T) {
	needsLinks(t)
	var out strings.Builder
	d := planted(t, &out)
	d.plugin = &naive{d.plugin, filepath.Join(d.base, demoPlugin)}
	err := d.run()
	unblock(d)
	if exitOf(err) != exitNo || codeOf(err) != "changed" {
		t.Errorf("ends with %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines[2 : len(lines)-1] {
		may := []string{"magic link", "race", "(allowed)", "lock of another"}
		if slices.ContainsFunc(may, func(s string) bool { return strings.HasPrefix(line, s) }) || strings.Contains(line, "not tried") {
			continue
		}
		if !strings.Contains(line, "NOT REFUSED") {
			t.Errorf("not noticed: %s", line)
		}
	}
	last := lines[len(lines)-1]
	for _, name := range []string{"outside/new", "outside/dir/inner.txt", "workspace/plugin/private"} {
		if !strings.Contains(last, "CHANGED:") || !strings.Contains(last, " "+name) {
			t.Errorf("%s is not told: %s", name, last)
		}
	}
}

// unblock gives the twin's open of the FIFO its other end.
func unblock(d *demo) {
	f, err := os.OpenFile(filepath.Join(d.base, demoPlugin, "pipe"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	f.Close()
}
