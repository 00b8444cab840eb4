package caproot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// kernelCopy is a seam that lets copies inside the kernel through, or answers them.
type kernelCopy struct {
	*seam
	ranges func(n int, err error) (int, error)
}

func (k *kernelCopy) clone(to, from handle) error {
	if err := k.event("clone"); err != nil {
		return err
	}
	return linuxSystem{}.clone(to, from)
}

func (k *kernelCopy) copyRange(to, from handle, offset int64, n int) (int, error) {
	if err := k.event("range"); err != nil {
		return 0, err
	}
	n, err := linuxSystem{}.copyRange(to, from, offset, n)
	if k.ranges != nil {
		return k.ranges(n, err)
	}
	return n, err
}

func sumOf(data []byte) string { s := sha256.Sum256(data); return hex.EncodeToString(s[:]) }

// case 42: 17 MiB byte for byte, however much of it the kernel copies.
func TestCopyIn(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef!"), 1<<20)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/big", big, 0o640))
		must(t, os.WriteFile(base+"/root/empty", nil, 0o640))
		stamp := time.Unix(1e9, 5)
		must(t, os.Chtimes(base+"/root/big", stamp, stamp))
		calls := 0
		for how, answer := range map[string]func(int, error) (int, error){
			"all":         nil,
			"0 at second": func(n int, err error) (int, error) { calls++; return map[bool]int{true: n}[calls == 1], err },
			"refused":     func(int, error) (int, error) { return 0, unix.EXDEV },
		} {
			calls = 0
			real := r.sys
			r.sys = &kernelCopy{&seam{system: real}, answer}
			for _, digest := range []bool{false, true} {
				var done, total int64
				o := CopyOptions{PutOptions: PutOptions{Digest: digest, Parents: true}, KeepMode: true, KeepTimes: true,
					Progress: func(d, of int64) { done, total = d, of }}
				receipt, err := r.CopyIn(t.Context(), "new/copy", Source{Root: r, Name: "big"}, o)
				must(t, err)
				if got := content(t, base, "new/copy"); got != string(big) || receipt.Size != int64(len(big)) || done != receipt.Size || total != done {
					t.Errorf("%s: %d bytes, receipt %d, progress %d of %d", how, len(got), receipt.Size, done, total)
				}
				if receipt.Op != "copyin" || digest && receipt.SHA256 != sumOf(big) || receipt.Mode != 0o640 || !receipt.ModTime.Equal(stamp) {
					t.Errorf("%s: %+v", how, receipt)
				}
				_, err = r.CopyIn(t.Context(), "new/empty", Source{Root: r, Name: "empty"}, o)
				must(t, err)
			}
			r.sys = real
		}
		f, err := os.Open(base + "/outside/secret") // the caller's own
		must(t, err)
		defer f.Close()
		_, err = r.CopyIn(t.Context(), "f", Source{File: f}, CopyOptions{})
		must(t, err)
		if content(t, base, "f") != "secret" {
			t.Error("copy of an open file")
		}
		noStage(t, base)
	})
}

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

// A reflink where the file system has them.
func TestCopyInClones(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		real := r.sys
		k := &kernelCopy{seam: &seam{system: real}}
		r.sys = k
		defer func() { r.sys = real }()
		_, err := r.CopyIn(t.Context(), "copy", Source{Root: r, Name: "f"}, CopyOptions{Clone: CloneRequire, PutOptions: PutOptions{Digest: true}})
		if errors.Is(err, ErrUnsupported) {
			gone(t, base+"/root/copy")
			if k.count("clone") != 1 || k.count("range") != 0 {
				t.Errorf("calls: %q", k.log)
			}
			t.Skip("the file system has no reflinks")
		}
		must(t, err)
		if content(t, base, "copy") != "content" {
			t.Error("clone has other content")
		}
	})
}

// A source that changes under the copy, and one that is swapped, publish nothing.
func TestCopyInNoticesChanges(t *testing.T) {
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
		must(t, syscall.Mkfifo(base+"/root/fifo", 0o644))
		must(t, os.Link(base+"/root/f", base+"/root/hard"))
		small := r.policy
		small.MaxReadBytes = 3
		limited, err := Open(base+"/root", small)
		must(t, err)
		defer limited.Close()
		for name, cause := range map[string]error{"fifo": ErrSpecial, "dir": syscall.EISDIR, "hard": ErrHardlink, "lk": ErrSymlink, "out/secret": ErrSymlink,
			"../outside/secret": ErrEscape, "missing": fs.ErrNotExist} {
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
		must(t, os.Symlink("../f", base+"/root/src/a/link"))
		must(t, os.Symlink("/etc/passwd", base+"/root/src/a/absolute"))
		must(t, syscall.Mkfifo(base+"/root/src/a/fifo", 0o644))
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
		must(t, os.Symlink("../dir", base+"/root/dst/sub"))
		must(t, os.Symlink("../f", base+"/root/dst/g"))
		// These would stay inside the copy.
		must(t, os.MkdirAll(base+"/root/src/inner", 0o755))
		must(t, os.WriteFile(base+"/root/src/inner/file", nil, 0o644))
		must(t, os.WriteFile(base+"/root/src/h", nil, 0o644))
		must(t, os.Mkdir(base+"/root/dst/real", 0o755))
		must(t, os.Symlink("real", base+"/root/dst/inner"))
		must(t, os.Symlink("real/h", base+"/root/dst/h"))
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

// case 167: a copy of, and into, directories that flip between themselves and a
// link to the outside.
func TestCopyTreeRace(t *testing.T) {
	p := Compat()
	p.Durability = DurabilityNone
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		stop := raceTree(t, base, 2000)
		defer stop()
		to := twin(t, r, base)
		defer to.Close()
		files := int64(0)
		for end, n := time.Now().Add(2*time.Second), 0; time.Now().Before(end); n++ {
			o := TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip, GoOn: true, Workers: 1 + (n+1)%2*3}
			report, err := to.CopyTree(t.Context(), "copy", r, "w", o)
			if files += report.Files; err != nil && Code(err) == "io" {
				t.Error(err)
			}
			// Back into the directories that flip.
			if _, err := r.CopyTree(t.Context(), "w", to, "copy", o); err != nil && Code(err) == "io" {
				t.Error(err)
			}
		}
		stop()
		if files < 1000 {
			t.Errorf("only %d files", files)
		}
		must(t, filepath.WalkDir(base+"/twin", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if data, _ := os.ReadFile(path); d.Name() != "file" || string(data) != "inside" {
					t.Errorf("%s holds %q", path, data)
				}
			}
			return err
		}))
	})
}

// The twin: a copy by path brings the outside in.
func TestCopyTreeRaceTwin(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/outside", 0o755))
	must(t, os.WriteFile(base+"/outside/secret", nil, 0o644))
	must(t, os.MkdirAll(base+"/root", 0o755))
	defer raceTree(t, base, 20)()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		var found bool
		naiveCopy(base+"/root/w", func(name string) { found = found || strings.HasSuffix(name, "/secret") })
		if found {
			return
		}
	}
	t.Error("the naive copy was never caught: the attack is too weak to prove anything")
}
