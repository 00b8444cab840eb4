package caproot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

// The tests in this file run on every system that has a backend.

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

// open makes a tree, beside it one that nobody may touch, and a Root on it.
func openTree(t *testing.T, p Policy) (r *Root, dir string) {
	base := t.TempDir()
	dir = filepath.Join(base, "root")
	for _, d := range []string{"outside", "root/dir/sub"} {
		must(t, os.MkdirAll(filepath.Join(base, d), 0o755))
	}
	for name, data := range map[string]string{"outside/secret": "secret", "root/f": "content", "root/dir/file": "file", "root/dir/sub/deep": "deep"} {
		must(t, os.WriteFile(filepath.Join(base, name), []byte(data), 0o644))
	}
	r, err := Open(dir, p)
	if errors.Is(err, ErrUnsupported) {
		t.Skip("no backend for this system: ", err)
	}
	must(t, err)
	t.Cleanup(func() {
		r.Close()
		if data, err := os.ReadFile(filepath.Join(base, "outside/secret")); err != nil || string(data) != "secret" {
			t.Errorf("outside: %q, %v", data, err)
		}
		if entries, err := os.ReadDir(filepath.Join(base, "outside")); err != nil || len(entries) != 1 {
			t.Errorf("outside: %v, %v", entries, err)
		}
	})
	return r, dir
}

func holds(t *testing.T, dir, name, content string) {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != content {
		t.Errorf("%s holds %q, %v; want %q", name, data, err, content)
	}
}

// needsIdentity skips where the system numbers no volume, as Wine without its
// mount manager: then nothing is proof of which object something is.
func needsIdentity(t *testing.T, r *Root) {
	t.Helper()
	if id, err := r.self(); err != nil || !id.Known() {
		t.Skipf("the system does not identify files: %v, %v", id, err)
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestReadingVerbs(t *testing.T) {
	p := Workspace()
	p.Rights |= Share
	r, _ := openTree(t, p)
	data, err := r.ReadFile("dir/file")
	if err != nil || string(data) != "file" {
		t.Errorf("ReadFile: %q, %v", data, err)
	}
	data, err = r.AppendFile([]byte("a "), "dir/sub/../file")
	if err != nil || string(data) != "a file" {
		t.Errorf("AppendFile: %q, %v", data, err)
	}
	st, err := r.Stat("dir/")
	if err != nil || !st.IsDir() || st.Name() != "dir" {
		t.Errorf("Stat: %v, %v", st, err)
	}
	st, err = r.Lstat("f")
	if err != nil || st.Size() != 7 || !st.Mode().IsRegular() || time.Since(st.ModTime()) > time.Hour {
		t.Errorf("Lstat: %v, %v", st, err)
	}
	yes, err := r.Exists("dir/sub/deep")
	no, err2 := r.Exists("dir/sub/none")
	if !yes || no || err != nil || err2 != nil {
		t.Errorf("Exists: %v %v, %v %v", yes, no, err, err2)
	}
	entries, err := r.ReadDir("dir")
	if err != nil || len(entries) != 2 || entries[0].Name() != "file" || !entries[1].IsDir() {
		t.Errorf("ReadDir: %v, %v", entries, err)
	}
	if i, err := entries[0].Info(); err != nil || i.Size() != 4 {
		t.Errorf("Info: %v, %v", i, err)
	}
	f, err := r.Open("f")
	must(t, err)
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || string(data) != "content" {
		t.Errorf("Open: %q, %v", data, err)
	}
	d, err := r.Open("dir")
	must(t, err)
	defer d.Close()
	if names, err := d.Readdirnames(-1); err != nil || len(names) != 2 {
		t.Errorf("Readdirnames: %q, %v", names, err)
	}
	must(t, fstest.TestFS(r.FS(), "f", "dir/file", "dir/sub/deep"))
}

func TestEscapesAreRefused(t *testing.T) {
	for policyName, p := range map[string]Policy{"workspace": Workspace(), "extract": Extract(), "compat": Compat()} {
		t.Run(policyName, func(t *testing.T) {
			r, dir := openTree(t, p)
			secret := filepath.Join(filepath.Dir(dir), "outside", "secret")
			for _, name := range []string{"../outside/secret", "dir/../../outside/secret", "..", "dir/../..", secret, "/", "", "none/../../outside/secret"} {
				for verb, do := range map[string]func(string) error{
					"ReadFile":  func(n string) error { _, err := r.ReadFile(n); return err },
					"Stat":      func(n string) error { _, err := r.Stat(n); return err },
					"Lstat":     func(n string) error { _, err := r.Lstat(n); return err },
					"WriteFile": func(n string) error { return r.WriteFile(n, nil, 0o600) },
					"Put":       func(n string) error { _, err := r.Put(n, nil, PutOptions{}); return err },
					"Mkdir":     func(n string) error { return r.Mkdir(n, 0o700) },
					"MkdirAll":  func(n string) error { return r.MkdirAll(n, 0o700) },
					"Remove":    r.Remove,
					"RemoveAll": r.RemoveAll,
					"Rename":    func(n string) error { return r.Rename("f", n) },
					"RenameOut": func(n string) error { return r.Rename(n, "g") },
					"Link":      func(n string) error { return r.Link(n, "l") },
					"Truncate":  func(n string) error { return r.Truncate(n, 0) },
					"Chmod":     func(n string) error { return r.Chmod(n, 0o600) },
					"Chtimes":   func(n string) error { return r.Chtimes(n, time.Time{}, time.Unix(1, 0)) },
					"OpenRoot":  func(n string) error { _, err := r.OpenRoot(n); return err },
					"Receipt":   func(n string) error { _, err := r.Receipt(n); return err },
				} {
					err := do(name)
					if err == nil && verb == "RemoveAll" && strings.HasPrefix(name, "none/") {
						continue // what is not there is removed
					}
					if err == nil {
						t.Errorf("%s(%q) went through", verb, name)
					}
					if name != "none/../../outside/secret" && errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s(%q) says not there: %v", verb, name, err)
					}
				}
			}
			if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f"}) {
				t.Errorf("the root holds %q", got)
			}
		})
	}
}

func TestMovesAndLinks(t *testing.T) {
	r, dir := openTree(t, Compat())
	_, err := r.Move("f", "dir/file", MoveOptions{})
	want(t, "Move over", err, fs.ErrExist)
	holds(t, dir, "f", "content")
	holds(t, dir, "dir/file", "file")
	_, err = r.Move("f", "dir/g", MoveOptions{})
	must(t, err)
	holds(t, dir, "dir/g", "content")
	must(t, r.Rename("dir/g", "dir/file"))
	holds(t, dir, "dir/file", "content")
	must(t, r.Rename("dir/sub", "moved"))
	holds(t, dir, "moved/deep", "deep")
	must(t, r.Link("dir/file", "hard"))
	a, err := r.Stat("dir/file")
	must(t, err)
	b, err := r.Stat("hard")
	must(t, err)
	if !SameFile(a, b) {
		t.Error("two names of one file are not the same file")
	}
	want(t, "Link over", r.Link("dir/file", "hard"), fs.ErrExist)
	if err := r.Link("dir", "d2"); err == nil {
		t.Error("linked a directory")
	}
}

func TestDirectories(t *testing.T) {
	r, dir := openTree(t, Workspace())
	must(t, r.Mkdir("d", 0o755))
	want(t, "Mkdir", r.Mkdir("d", 0o755), fs.ErrExist)
	must(t, r.MkdirAll("d/e/f/g", 0o755))
	must(t, r.MkdirAll("d/e/f/g/", 0o755))
	if err := r.MkdirAll("f/g", 0o755); err == nil {
		t.Error("MkdirAll through a file")
	}
	if err := r.Remove("d"); Code(err) != "not-empty" {
		t.Errorf("Remove of a full directory: %v", err)
	}
	must(t, r.Remove("d/e/f/g"))
	must(t, r.RemoveAll("d"))
	must(t, r.RemoveAll("d"))
	must(t, r.RemoveAll("dir"))
	want(t, "Remove", r.Remove("dir"), fs.ErrNotExist)
	sub, err := func() (*Root, error) { must(t, r.Mkdir("s", 0o755)); return r.OpenRoot("s") }()
	must(t, err)
	defer sub.Close()
	_, err = sub.Put("in", []byte("sub"), PutOptions{})
	must(t, err)
	_, err = sub.ReadFile("../f")
	want(t, "out of the sub root", err, ErrEscape)
	holds(t, dir, "s/in", "sub")
	must(t, sub.Close())
	_, err = sub.ReadFile("in")
	want(t, "closed root", err, fs.ErrClosed)
}

func TestReceiptsAndConditionalRemove(t *testing.T) {
	r, dir := openTree(t, Workspace())
	needsIdentity(t, r)
	receipt, err := r.Put("x", []byte("x"), PutOptions{Digest: true, Ancestry: true})
	must(t, err)
	must(t, r.Check(receipt))
	must(t, r.WriteFile("x", []byte("y"), 0o600))
	want(t, "content changed", r.Check(receipt), ErrChanged)
	other, err := r.Receipt("f")
	must(t, err)
	want(t, "RemoveIf of another", r.RemoveIf("x", other), ErrChanged)
	holds(t, dir, "x", "y")
	now, err := r.Receipt("x")
	must(t, err)
	must(t, r.RemoveIf("x", now))
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f"}) {
		t.Errorf("the root holds %q", got)
	}
}

func TestTemporaries(t *testing.T) {
	r, dir := openTree(t, Workspace())
	f, name, err := r.CreateTemp("dir", "t-*.tmp")
	must(t, err)
	_, err = f.Write([]byte("temp"))
	must(t, err)
	must(t, f.Close())
	holds(t, dir, name, "temp")
	d, err := r.MkdirTemp("", "d-*")
	must(t, err)
	must(t, r.Remove(d))
	must(t, r.Remove(name))
	must(t, os.WriteFile(filepath.Join(dir, deadStage), nil, 0o600))
	live, err := r.Stage("f", PutOptions{})
	must(t, err)
	n, err := r.Sweep(".")
	if err != nil || n != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
	_, err = live.Commit()
	must(t, err)
}

func TestManyGoroutines(t *testing.T) {
	r, _ := openTree(t, Workspace())
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			name := fmt.Sprintf("g%d", g)
			for i := range 25 {
				if _, err := r.Put(name, []byte(strings.Repeat("x", i)), PutOptions{Durability: DurabilityNone}); err != nil {
					t.Errorf("Put: %v", err)
				}
				if _, err := r.ReadFile(name); err != nil {
					t.Errorf("ReadFile: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestPolicyLimits(t *testing.T) {
	r, dir := openTree(t, ReadOnly())
	want(t, "WriteFile", r.WriteFile("f", nil, 0o600), ErrPolicy)
	want(t, "as permission", r.Remove("f"), fs.ErrPermission)
	want(t, "Mkdir", r.Mkdir("d", 0o700), ErrPolicy)
	_, err := r.Put("f", nil, PutOptions{})
	want(t, "Put", err, ErrPolicy)
	_, err = r.File()
	want(t, "File", err, ErrPolicy)
	holds(t, dir, "f", "content")
	none, err := Open(dir, Policy{})
	if err == nil {
		defer none.Close()
		_, err = none.Stat("f")
	}
	if err == nil {
		t.Error("the zero policy let a Stat through")
	}
}

func TestLongAndWideNames(t *testing.T) {
	r, _ := openTree(t, Workspace())
	deep := strings.Repeat(strings.Repeat("d", 50)+"/", 20)
	must(t, r.MkdirAll(deep, 0o755))
	for _, name := range []string{"file", "Ünïcödé 文件 🗂", strings.Repeat("n", 200)} {
		_, err := r.Put(deep+name, []byte(name), PutOptions{})
		must(t, err)
		if data, err := r.ReadFile(deep + name); err != nil || string(data) != name {
			t.Errorf("%q: %q, %v", name, data, err)
		}
	}
	must(t, r.RemoveAll(deep[:50]))
}
