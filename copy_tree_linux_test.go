package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// skipLinks is a copy of files and directories.
var skipLinks = TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip}

// Stages of other writers, live and dead, are not copied, and are counted.
func TestCopyLeavesStagesOut(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/src/sub/"+stagePrefix+strings.Repeat("D", 26), 0o755))
		must(t, os.WriteFile(base+"/root/src/f", []byte("f"), 0o644))
		must(t, os.WriteFile(base+"/root/src/sub/"+deadStage, []byte("half"), 0o644))
		must(t, os.WriteFile(base+"/root/src/"+stagePrefix+"notes.txt", nil, 0o644))
		s := hook(r, answers(map[string]error{"unnamed": syscall.EOPNOTSUPP}))
		live, err := r.Stage("src/f", PutOptions{})
		must(t, err)
		defer live.Abort()
		r.sys = s.system
		for _, to := range []string{"tree", "fs"} {
			if to == "tree" {
				report, err := r.CopyTree(t.Context(), to, r, "src", TreeCopyOptions{})
				must(t, err)
				if report.Files != 2 || report.Dirs != 1 || report.Stages != 3 || report.Vanished != 0 {
					t.Errorf("%+v", report)
				}
			} else {
				must(t, r.CopyFS(to, os.DirFS(base+"/root/src")))
			}
			var found []string
			must(t, filepath.WalkDir(base+"/root/"+to, func(path string, _ fs.DirEntry, err error) error {
				found = append(found, strings.TrimPrefix(path, base+"/root/"+to))
				return err
			}))
			if got := strings.Join(found, " "); got != " /"+stagePrefix+"notes.txt /f /sub" {
				t.Errorf("%s has %s", to, got)
			}
		}
	})
}

// case 171: what vanishes between its listing and the end of its copy is passed
// over, and counted. A move passes nothing over.
func TestCopyPassesOverWhatVanishes(t *testing.T) {
	for what, name := range map[string]string{"file": "src/a", "link": "src/l", "directory": "src/d"} {
		for _, window := range []string{"listed", "copied"} {
			for _, workers := range []int{1, 4} {
				eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
					must(t, os.MkdirAll(base+"/root/src/d", 0o755))
					must(t, os.WriteFile(base+"/root/src/a", []byte("a"), 0o644))
					must(t, os.WriteFile(base+"/root/src/z", []byte("z"), 0o644))
					must(t, os.Symlink("a", base+"/root/src/l"))
					to := twin(t, r, base)
					defer to.Close()
					remove := func() { os.RemoveAll(base + "/root/" + name) }
					o := TreeCopyOptions{Symlinks: LinksKeep, Workers: workers, File: CopyOptions{KeepMode: true}}
					var w *vanishing
					if window == "listed" {
						w = &vanishing{system: r.sys, act: remove}
						r.sys = w
					} else if what == "file" {
						o.File.Progress = func(int64, int64) { remove() }
					} else {
						return
					}
					report, err := to.CopyTree(t.Context(), "copy", r, "src", o)
					if w != nil {
						r.sys = w.system
					}
					must(t, err)
					lost := int64(1)
					if window == "copied" && report.Vanished == 0 {
						lost = 0 // the progress was that of z alone
					}
					if report.Vanished != lost || report.Files+report.Dirs+report.Links+report.Vanished != 4 || report.Left != nil {
						t.Errorf("%s, %s: %+v", what, window, report)
					}
					if data, err := os.ReadFile(base + "/twin/copy/z"); string(data) != "z" {
						t.Errorf("the other file: %q, %v", data, err)
					}
				})
			}
		}
	}
}

// vanishing acts once, after a listing.
type vanishing struct {
	system
	act func()
}

func (v *vanishing) list(dir handle, scratch []byte) ([]direntry, error) {
	entries, err := v.system.list(dir, scratch)
	if len(entries) > 0 && v.act != nil {
		v.act()
		v.act = nil
	}
	return entries, err
}

// A copy into its own source would have no end: it is refused before anything is
// made, whatever the directory is called on the way.
func TestCopyIntoItself(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/src/sub", 0o755))
		must(t, os.WriteFile(base+"/root/src/f", nil, 0o644))
		must(t, os.Symlink("src/sub", base+"/root/way"))
		sub, err := r.OpenRoot("src/sub")
		must(t, err)
		defer sub.Close()
		before := seal(t, base+"/root/src")
		for _, to := range []string{"src", "src/sub", "src/new", "src/new/er", "way", "way/new", "dir/../src/sub/new"} {
			_, err := r.CopyTree(t.Context(), to, r, "src", skipLinks)
			want(t, "CopyTree "+to, err, ErrName)
			want(t, "CopyFS "+to, r.CopyFS(to, os.DirFS(base+"/root/src")), ErrName)
		}
		// The source may be above the root that is copied to.
		_, err = sub.CopyTree(t.Context(), "new", r, ".", skipLinks)
		want(t, "from above", err, ErrName)
		want(t, "CopyFS from above", sub.CopyFS("new", r.FS()), ErrName)
		if after := seal(t, base+"/root/src"); after != before {
			t.Errorf("changed:\n%s\nwas\n%s", after, before)
		}
		// Beside and above it there is an end.
		must(t, r.CopyFS("beside", os.DirFS(base+"/root/src")))
		_, err = r.CopyTree(t.Context(), ".", r, "src", skipLinks)
		must(t, err)
	})
}

// Where the way up does not tell, meeting the copy does: it is mounted in its source.
func TestCopyIntoItselfByMount(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/src/m", 0o755))
		must(t, os.Mkdir(base+"/root/to", 0o755))
		if err := unix.Mount(base+"/root/to", base+"/root/src/m", "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no mount: %v", err)
		}
		defer unix.Unmount(base+"/root/src/m", unix.MNT_DETACH)
		want(t, "CopyFS", r.CopyFS("to", os.DirFS(base+"/root/src")), ErrName)
		gone(t, base+"/root/to/m")
	})
}

// os.Root's way with an empty name.
func TestCopyFSNeedsAName(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for _, source := range []fs.FS{fstest.MapFS{}, fstest.MapFS{"f": {}}, os.DirFS(base + "/outside")} {
			want(t, "empty name", r.CopyFS("", source), ErrName)
		}
	})
}

// A hard link that replaces a file comes in one step: where it cannot be made,
// what had the name is still there.
func TestCopyKeepsWhatALinkCannotReplace(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/src", 0o755))
		must(t, os.WriteFile(base+"/root/src/a", []byte("new"), 0o644))
		must(t, os.Link(base+"/root/src/a", base+"/root/src/b"))
		must(t, os.Mkdir(base+"/root/to", 0o755))
		old := func() {
			for _, name := range []string{"a", "b"} {
				os.Remove(base + "/root/to/" + name)
				must(t, os.WriteFile(base+"/root/to/"+name, []byte("old"), 0o644))
			}
		}
		o := TreeCopyOptions{Hardlinks: LinksKeep}
		for what, fault := range map[string]string{"link": "link a STAGE", "link b": "link b STAGE", "rename": "rename replace STAGE"} {
			old()
			s := hook(r, nil)
			calls := 0
			s.before = func(event string) error {
				if strings.HasPrefix(event, fault) {
					// The first file is published by a rename too.
					if calls++; fault != "rename replace STAGE" || calls == 2 {
						return syscall.EMLINK
					}
				}
				return nil
			}
			_, err := r.CopyTree(t.Context(), "to", r, "src", o)
			r.sys = s.system
			if err == nil && calls == 0 {
				continue // the directory was listed the other way round
			}
			if !errors.Is(err, syscall.EMLINK) {
				t.Errorf("%s: %v after %q", what, err, s.log)
			}
			for _, name := range []string{"a", "b"} {
				if got := content(t, base, "to/"+name); got != "old" && got != "new" {
					t.Errorf("%s: %s holds %q", what, name, got)
				}
			}
			noStageIn(t, base+"/root/to")
		}
		for range 2 { // the second time both are names of one file already
			old()
			report, err := r.CopyTree(t.Context(), "to", r, "src", o)
			must(t, err)
			a, _ := os.Stat(base + "/root/to/a")
			b, _ := os.Stat(base + "/root/to/b")
			if !os.SameFile(a, b) || content(t, base, "to/a") != "new" || report.Files != 2 {
				t.Errorf("%+v", report)
			}
		}
		old()
		o.File.NoReplace = true
		_, err := r.CopyTree(t.Context(), "to", r, "src", o)
		want(t, "NoReplace", err, fs.ErrExist)
		must(t, os.Remove(base+"/root/to/a"))
		must(t, os.Remove(base+"/root/to/b"))
		for _, name := range []string{"a", "b"} {
			must(t, os.Mkdir(base+"/root/to/"+name, 0o755))
		}
		o.File.NoReplace = false
		_, err = r.CopyTree(t.Context(), "to", r, "src", o)
		want(t, "a directory in the way", err, syscall.EISDIR)
		noStageIn(t, base+"/root/to")
	})
}

// What a process leaves that was killed between the two steps is swept: it is
// a further name of a file that has its own.
func TestSweepOfKilledLink(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Link(base+"/root/f", base+"/root/"+deadStage))
		n, err := r.Sweep(".")
		must(t, err)
		if n != 1 || content(t, base, "f") != "content" {
			t.Errorf("swept %d", n)
		}
	})
}

// Errors about an open source are those of a verb: with its name, and its cause.
func TestCopyInFromBadFile(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, syscall.Mkfifo(base+"/root/fifo", 0o600))
		fifo, err := os.OpenFile(base+"/root/fifo", os.O_RDWR, 0)
		must(t, err)
		defer fifo.Close()
		dir, err := os.Open(base + "/root/dir")
		must(t, err)
		defer dir.Close()
		closed, err := os.Open(base + "/root/f")
		must(t, err)
		must(t, closed.Close())
		unreadable, err := os.OpenFile(base+"/root/f", os.O_WRONLY, 0)
		must(t, err)
		defer unreadable.Close()
		for what, c := range map[string]struct {
			file  *os.File
			cause error
		}{
			"nobody's": {nil, fs.ErrInvalid}, "fifo": {fifo, ErrSpecial}, "directory": {dir, syscall.EISDIR},
			"closed": {closed, fs.ErrClosed}, "unreadable": {unreadable, syscall.EBADF},
		} {
			_, err := r.CopyIn(t.Context(), "copy", Source{File: c.file}, CopyOptions{})
			want(t, what, err, c.cause)
			var path *fs.PathError
			if !errors.As(err, &path) || path.Op != "copyin" || path.Path != "copy" {
				t.Errorf("%s: %#v", what, err)
			}
			gone(t, base+"/root/copy")
		}
	})
}
