package caproot

import (
	"context"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/caproot/caproot/identity"
)

// case 40: a file of procfs says that its size is 0.
func TestCopyInFromProc(t *testing.T) {
	proc, err := Open("/proc/self", ReadOnly())
	must(t, err)
	defer proc.Close()
	expect, err := os.ReadFile("/proc/self/cmdline")
	must(t, err)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		_, err := r.CopyIn(t.Context(), "copy", Source{Root: proc, Name: "cmdline"}, CopyOptions{})
		must(t, err)
		if got := content(t, base, "copy"); got != string(expect) || got == "" {
			t.Errorf("%q", got)
		}
	})
}

// A source that changes under the copy, and one that is swapped, publish nothing.
func TestCopyInNoticesChanges(t *testing.T) {
	notUnderWine(t, "removes a file with its last handle")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		source := base + "/root/src"
		for how, change := range map[string]func(){
			"growth":    func() { f, _ := os.OpenFile(source, os.O_APPEND|os.O_WRONLY, 0); f.WriteString("more"); f.Close() },
			"shrinking": func() { os.Truncate(source, 2) },
			"rewriting": func() { f, _ := os.OpenFile(source, os.O_WRONLY, 0); f.WriteString("SOURCE"); f.Close() },
			"swap":      func() { os.Rename(source, source+".old"); os.WriteFile(source, []byte("source"), 0o600) },
			"removal":   func() { os.Remove(source) },
			"a link to outside": func() {
				os.Remove(source)
				os.Symlink("../outside/secret", source)
			},
		} {
			os.Remove(source)
			must(t, os.WriteFile(source, []byte("source"), 0o600))
			// A clock tick, so that a change has another time.
			must(t, os.Chtimes(source, time.Unix(1e9, 0), time.Unix(1e9, 0)))
			s := hook(r, once("unnamed", change))
			_, err := r.CopyIn(t.Context(), "copy", Source{Root: r, Name: "src"}, CopyOptions{})
			r.sys = s.system
			want(t, how, err, ErrChanged)
			gone(t, base+"/root/copy")
		}
		noStage(t, base)
	})
}

func TestCopyInRefuses(t *testing.T) {
	eachResolver(t, Extract(), func(t *testing.T, r *Root, base string) {
		if hasFIFOs {
			mkfifo(t, base+"/root/fifo")
		}
		must(t, os.Link(base+"/root/f", base+"/root/hard"))
		small := r.policy
		small.MaxReadBytes = 3
		limited, err := Open(base+"/root", small)
		must(t, err)
		defer limited.Close()
		for name, cause := range map[string]error{"fifo": ErrSpecial, "dir": syscall.EISDIR, "hard": ErrHardlink, "lk": ErrSymlink, "out/secret": ErrSymlink,
			"../outside/secret": ErrEscape, "missing": fs.ErrNotExist} {
			if name == "fifo" && !hasFIFOs || len(withoutLinks(t, []string{name})) == 0 {
				continue
			}
			_, err := r.CopyIn(t.Context(), "copy", Source{Root: r, Name: name}, CopyOptions{})
			want(t, name, err, cause)
		}
		_, err = r.CopyIn(t.Context(), "copy", Source{Root: limited, Name: "dir/file"}, CopyOptions{})
		want(t, "limit of the source", err, ErrTooLarge)
		_, err = r.CopyIn(t.Context(), "copy", Source{Root: r, Name: "dir/file"}, CopyOptions{PutOptions: PutOptions{MaxBytes: 3}})
		want(t, "limit of the copy", err, ErrTooLarge)
		_, err = r.CopyIn(t.Context(), "dir/file", Source{Root: r, Name: "dir/file"}, CopyOptions{PutOptions: PutOptions{NoReplace: true}})
		want(t, "NoReplace", err, fs.ErrExist)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = r.CopyIn(ctx, "copy", Source{Root: r, Name: "dir/file"}, CopyOptions{})
		want(t, "canceled", err, context.Canceled)
		gone(t, base+"/root/copy")
		noStage(t, base)
	})
}

// twin opens a second root beside the first, with the same resolver, for the
// caller to close.
func twin(t *testing.T, r *Root, base string) *Root {
	t.Helper()
	must(t, os.MkdirAll(base+"/twin", 0o755))
	other, err := Open(base+"/twin", r.policy)
	must(t, err)
	other.sys, other.beneath = r.sys, r.beneath
	return other
}

func TestCopyTree(t *testing.T) {
	p := Workspace()
	p.Durability = DurabilityNone
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/src/a/closed", 0o755))
		for name, mode := range map[string]fs.FileMode{"src/f": 0o644, "src/a/run": 0o755, "src/a/open": 0o666, "src/a/closed/x": 0o400} {
			must(t, os.WriteFile(base+"/root/"+name, []byte(name), 0o600))
			must(t, os.Chmod(base+"/root/"+name, mode))
		}
		must(t, os.Chmod(base+"/root/src/a/run", 0o755|fs.ModeSetuid))
		must(t, os.Link(base+"/root/src/f", base+"/root/src/a/hard"))
		symlink(t, "../f", base+"/root/src/a/link")
		symlink(t, "/etc/passwd", base+"/root/src/a/absolute")
		mkfifo(t, base+"/root/src/a/fifo")
		must(t, os.Chmod(base+"/root/src/a/closed", 0o555))
		t.Cleanup(func() { giveBack(t, base+"/root") })
		to := twin(t, r, base)
		defer to.Close()
		fds := openFDs(t)
		for _, workers := range []int{1, 4} {
			made := map[string]identity.Receipt{}
			lock := make(chan bool, 1)
			o := TreeCopyOptions{File: CopyOptions{KeepMode: true, PutOptions: PutOptions{Digest: true}}, Symlinks: LinksKeep, Hardlinks: LinksKeep, GoOn: true,
				Workers: workers, Copied: func(r identity.Receipt) { lock <- true; made[r.Path] = r; <-lock }}
			report, err := to.CopyTree(t.Context(), "in/copy", r, "src", o)
			want(t, "special", err, ErrSpecial)
			want(t, "absolute link", err, ErrEscape)
			if report.Files != 5 || report.Dirs != 2 || report.Links != 1 || len(report.Left) != 2 || report.Left[0].Path != "src/a/absolute" || report.Left[1].Path != "src/a/fifo" {
				t.Errorf("%+v", report)
			}
			for name, mode := range map[string]fs.FileMode{"f": 0o644, "a/run": 0o755, "a/open": 0o664, "a/closed/x": 0o400, "a": 0o755 | fs.ModeDir, "a/closed": 0o555 | fs.ModeDir} {
				info, err := os.Lstat(base + "/twin/in/copy/" + name)
				must(t, err)
				if info.Mode() != mode {
					t.Errorf("%s: %v, want %v", name, info.Mode(), mode)
				}
				if _, told := made["in/copy/"+name]; !told {
					t.Errorf("%s was not told", name)
				}
			}
			must(t, to.Check(made["in/copy/a/run"]))
			a, _ := os.Stat(base + "/twin/in/copy/f")
			b, _ := os.Stat(base + "/twin/in/copy/a/hard")
			c, _ := os.Stat(base + "/root/src/f")
			if !os.SameFile(a, b) || os.SameFile(a, c) {
				t.Error("hard links of the copy")
			}
			if link, _ := os.Readlink(base + "/twin/in/copy/a/link"); link != "../f" {
				t.Errorf("link %q", link)
			}
			if openFDs(t) != fds {
				t.Error("descriptors leaked")
			}
			must(t, os.Chmod(base+"/twin/in/copy/a/closed", 0o755))
			must(t, os.RemoveAll(base+"/twin/in"))
		}
		for what, c := range map[string]struct {
			o     TreeCopyOptions
			cause error
		}{
			"symlinks":   {TreeCopyOptions{Hardlinks: LinksSkip, GoOn: true}, ErrSymlink},
			"hard links": {TreeCopyOptions{Symlinks: LinksSkip, GoOn: true}, ErrHardlink},
			"special":    {TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip}, ErrSpecial},
			"entries":    {TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip, MaxEntries: 2, GoOn: true}, ErrTooLarge},
			"depth":      {TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip, MaxDepth: 1, GoOn: true}, ErrTooLarge},
			"bytes":      {TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip, MaxBytes: 10, GoOn: true}, ErrTooLarge},
		} {
			_, err := to.CopyTree(t.Context(), "in", r, "src", c.o)
			want(t, what, err, c.cause)
			must(t, os.RemoveAll(base+"/twin/in"))
		}
		noStage(t, base)
	})
}

// Links planted in the copy lead nowhere.
func TestCopyTreeIntoLinks(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/src/sub", 0o755))
		must(t, os.WriteFile(base+"/root/src/sub/file", nil, 0o644))
		must(t, os.WriteFile(base+"/root/src/g", nil, 0o644))
		must(t, os.Mkdir(base+"/root/dst", 0o755))
		symlink(t, "../dir", base+"/root/dst/sub")
		symlink(t, "../f", base+"/root/dst/g")
		// These would stay inside the copy.
		must(t, os.MkdirAll(base+"/root/src/inner", 0o755))
		must(t, os.WriteFile(base+"/root/src/inner/file", nil, 0o644))
		must(t, os.WriteFile(base+"/root/src/h", nil, 0o644))
		must(t, os.Mkdir(base+"/root/dst/real", 0o755))
		symlink(t, "real", base+"/root/dst/inner")
		symlink(t, "real/h", base+"/root/dst/h")
		report, err := r.CopyTree(t.Context(), "dst", r, "src", TreeCopyOptions{GoOn: true})
		if report.Files != 0 || err == nil || len(report.Left) != 6 {
			t.Errorf("%+v, %v", report, err)
		}
		if entries, _ := os.ReadDir(base + "/root/dst/real"); len(entries) != 0 {
			t.Errorf("written through a link: %v", entries)
		}
		if content(t, base, "dir/file") != "file" || content(t, base, "f") != "content" {
			t.Error("wrote through a link")
		}
	})
}

func TestCopyFS(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		source := fstest.MapFS{"a/b": {Data: []byte("b"), Mode: 0o755}, "c": {Data: []byte("c"), Mode: 0o444}}
		must(t, r.CopyFS("new/dir", source))
		if content(t, base, "new/dir/a/b") != "b" || content(t, base, "new/dir/c") != "c" {
			t.Error("content")
		}
		want(t, "again", r.CopyFS("new/dir", source), fs.ErrExist)
		must(t, r.CopyFS(".", fstest.MapFS{"top": {}}))
		want(t, "escape", r.CopyFS("../outside", source), ErrEscape)
		want(t, "link", r.CopyFS(".", fstest.MapFS{"evil": {Data: []byte("/etc"), Mode: fs.ModeSymlink}}), ErrEscape)
		noStage(t, base)
	})
}
