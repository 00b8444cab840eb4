package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/pathsafe"
)

// The native interface parses separators, and leaves ".." to the file system: no
// call below the walk takes more than one component.
func TestOneComponentACall(t *testing.T) {
	r, dir := openTree(t, Workspace())
	must(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "secret"), []byte("secret"), 0o644))
	for _, name := range []string{"..", `..\secret`, `dir\file`, "dir/file", `\`, "../secret"} {
		if h, err := r.sys.open(r.dir, name, forRead, 0); err == nil {
			r.sys.close(h)
			t.Errorf("open %q", name)
		}
		if h, err := r.sys.openDir(r.dir, name); err == nil {
			r.sys.close(h)
			t.Errorf("openDir %q", name)
		}
		if _, err := r.sys.stat(r.dir, name, false); err == nil {
			t.Errorf("stat %q", name)
		}
		if r.sys.mkdir(r.dir, name+"x", 0o755) == nil && strings.ContainsAny(name, `\/`) {
			t.Errorf("mkdir %q", name+"x")
		}
		if r.sys.rename(r.dir, "f", r.dir, name, noReplace) == nil || r.sys.link(r.dir, "f", r.dir, name) == nil {
			t.Errorf("f became %q", name)
		}
	}
}

// Times that int64 nanoseconds cannot count, and those that would mean something else.
func TestTimesOfWindows(t *testing.T) {
	r, _ := openTree(t, Compat())
	for _, at := range []time.Time{time.Date(2300, 1, 2, 3, 4, 5, 600, time.UTC), time.Date(1910, 1, 1, 0, 0, 0, 0, time.UTC)} {
		must(t, r.Chtimes("f", at, at))
		info, err := r.Stat("f")
		must(t, err)
		if !info.ModTime().Equal(at) {
			t.Errorf("%v became %v", at, info.ModTime())
		}
		d := info.Sys().(*syscall.Win32FileAttributeData).LastWriteTime
		ticks := int64(d.HighDateTime)<<32 | int64(d.LowDateTime)
		if sec := ticks/1e7 - 11644473600; sec != at.Unix() {
			t.Errorf("Sys tells %d, not %d", sec, at.Unix())
		}
	}
	for _, at := range []time.Time{time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)} {
		want(t, "Chtimes "+at.String(), r.Chtimes("f", at, at), syscall.EINVAL)
	}
}

// A file opened to be truncated and appended to is appended to.
func TestTruncatedAndAppended(t *testing.T) {
	r, dir := openTree(t, Workspace())
	const flag = os.O_WRONLY | os.O_APPEND | os.O_TRUNC
	f, err := r.OpenView("f", flag, 0)
	must(t, err)
	defer f.Close()
	other, err := r.OpenView("f", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer other.Close()
	for _, w := range []struct {
		f    *File
		text string
	}{{f, "one,"}, {other, "two,"}, {f, "three"}} {
		_, err := w.f.Write([]byte(w.text))
		must(t, err)
	}
	holds(t, dir, "f", "one,two,three")
}

// Forms of a root's path (case 189).
func TestRootForms(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o644))
	volume := filepath.VolumeName(dir)
	for _, form := range []string{dir, filepath.ToSlash(dir), dir + `\`, `\\?\` + dir, `\\.\` + dir, `\??\` + dir, `//?/` + dir} {
		r, err := Open(form, Workspace())
		if err != nil {
			t.Errorf("%q: %v", form, err)
			continue
		}
		data, err := r.ReadFile("f")
		if err != nil || string(data) != "content" {
			t.Errorf("%q: %q, %v", form, data, err)
		}
		must(t, r.Close())
	}
	for _, form := range []string{`\\?\` + volume, `\\.\` + volume, `\\?\` + volume + `\`, volume + `\`} {
		r, err := Open(form, ReadOnly())
		if err != nil {
			t.Errorf("%q: %v", form, err)
			continue
		}
		_, err = r.Stat(filepath.ToSlash(dir[len(volume)+1:]))
		must(t, err)
		must(t, r.Close())
	}
	if _, err := Open(filepath.Join(dir, "f"), Workspace()); err == nil {
		t.Error("a file was opened as a root")
	}
}

// linkedName makes a name a link, as far as the walk can see, where the system makes none.
type linkedName struct {
	system
	name, target string
}

func (l *linkedName) openDir(dir handle, name string) (handle, error) {
	if name == l.name {
		return noHandle, syscall.ELOOP
	}
	return l.system.openDir(dir, name)
}

func (l *linkedName) open(dir handle, name string, how openHow, perm fs.FileMode) (handle, error) {
	if name == l.name && how&pathOnly == 0 {
		return noHandle, syscall.ELOOP
	}
	return l.system.open(dir, name, how, perm)
}

func (l *linkedName) readlink(dir handle, name string) (string, error) {
	if name == l.name {
		return l.target, nil
	}
	return l.system.readlink(dir, name)
}

// The text of a link is walked by the rules of this system, in every policy (cases
// 50, 57, 183).
func TestTextOfLinks(t *testing.T) {
	for _, c := range []struct {
		target string
		want   error // nil: leads to dir\file
	}{
		{`dir\file`, nil},
		{"dir/file", nil},
		{`.\dir\..\dir\file`, nil},
		{`..\outside`, ErrEscape},
		{`C:\outside`, ErrEscape},
		{`\outside`, ErrEscape},
		{`\\server\share\x`, ErrEscape},
		{`\\?\Volume{0b1d6a27-0000-0000-0000-100000000000}\`, ErrEscape},
		{`dir\file:stream`, ErrName},
		{`dir\file::$DATA`, ErrName},
		{`dir:$I30:$INDEX_ALLOCATION\file`, ErrName},
		{`dir.\file`, ErrName},
		{`dir\file `, ErrName},
		{`dir\CON`, ErrName},
	} {
		for _, names := range []pathsafe.Profile{pathsafe.Host, pathsafe.Portable} {
			p := Compat()
			p.Names = names
			r, _ := openTree(t, p)
			r.sys = &linkedName{r.sys, "lk", c.target}
			data, err := r.ReadFile("lk")
			if c.want == nil && (err != nil || string(data) != "file") || !errors.Is(err, c.want) {
				t.Errorf("%q under %v: %q, %v", c.target, names, data, err)
			}
			must(t, r.Close())
		}
	}
}

// A link that is made is the one that was asked for.
func TestTargetsOfNewLinks(t *testing.T) {
	r, dir := openTree(t, Compat())
	err := r.Symlink("C:x", "lk")
	if !errors.Is(err, ErrName) {
		t.Errorf("a target on the current directory of a drive: %v", err)
	}
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f"}) {
		t.Errorf("the root holds %q", got)
	}
}

// A file that replaces another has its access list, protected or not.
func TestAccessIsKept(t *testing.T) {
	r, dir := openTree(t, Workspace())
	for name, mode := range map[string]fs.FileMode{"private": 0o600, "shared": 0o644} {
		_, err := r.Put(name, []byte("old"), PutOptions{Mode: mode})
		must(t, err)
		before := accessOf(t, filepath.Join(dir, name))
		receipt, err := r.Put(name, []byte("new"), PutOptions{})
		must(t, err)
		if slices.Contains(receipt.Lost, "access-list") {
			t.Errorf("%s: lost %q", name, receipt.Lost)
		}
		if after := accessOf(t, filepath.Join(dir, name)); after != before {
			t.Errorf("%s: %s became %s", name, before, after)
		}
	}
}

func accessOf(t *testing.T, path string) string {
	t.Helper()
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	must(t, err)
	return sd.String()
}
