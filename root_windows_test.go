package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/internal/testfs"
)

// hold opens a file so that nobody may delete or replace it meanwhile.
func hold(t *testing.T, path string, share uint32) windows.Handle {
	t.Helper()
	wide, err := windows.UTF16PtrFromString(path)
	must(t, err)
	h, err := windows.CreateFile(wide, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	must(t, err)
	return h
}

// case 180: a scanner holds the target without sharing deletion.
func TestReplaceHeldTarget(t *testing.T) {
	r, dir := openTree(t, Workspace())
	path := filepath.Join(dir, "f")
	h := hold(t, path, windows.FILE_SHARE_READ)
	released := make(chan error)
	go func() {
		time.Sleep(100 * time.Millisecond)
		released <- windows.CloseHandle(h)
	}()
	_, err := r.Put("f", []byte("after the wait"), PutOptions{})
	must(t, err)
	must(t, <-released)
	holds(t, dir, "f", "after the wait")

	h = hold(t, path, windows.FILE_SHARE_READ)
	_, err = r.Put("f", []byte("never"), PutOptions{})
	if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Errorf("Put over a held file: %v", err)
	}
	err = r.Remove("f")
	if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		t.Errorf("Remove of a held file: %v", err)
	}
	must(t, windows.CloseHandle(h))
	holds(t, dir, "f", "after the wait")
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f"}) {
		t.Errorf("the root holds %q", got)
	}
}

// case 181: a name whose file goes with its last handle.
func TestDeletePendingName(t *testing.T) {
	if testfs.UnderWine() {
		t.Skip("Wine keeps no delete-pending state: Stat still succeeds")
	}
	r, dir := openTree(t, Workspace())
	h := hold(t, filepath.Join(dir, "f"), windows.FILE_SHARE_READ|windows.FILE_SHARE_DELETE)
	must(t, r.Remove("f"))
	_, err := r.Stat("f")
	if err == nil {
		t.Error("Stat of a removed file")
	}
	must(t, windows.CloseHandle(h))
	_, err = r.Put("f", []byte("new"), PutOptions{})
	must(t, err)
	holds(t, dir, "f", "new")
}

// case 186: an open root is in nobody's way once it is closed.
func TestCloseFreesDirectory(t *testing.T) {
	r, dir := openTree(t, Workspace())
	for _, name := range []string{"../x", "none", "dir"} {
		r.ReadFile(name) // each fails on another path
		r.Stat(name)
		r.Put(name, nil, PutOptions{})
	}
	must(t, r.Close())
	must(t, os.Rename(dir, dir+"2"))
	must(t, os.RemoveAll(dir+"2"))
}

// case 187: a directory is flushed through a handle that may add to it.
func TestDirectorySync(t *testing.T) {
	r, _ := openTree(t, Workspace())
	receipt, err := r.Put("dir/durable", []byte("x"), PutOptions{Durability: DurabilityDir})
	must(t, err)
	if receipt.Durability != DurabilityDir {
		t.Errorf("achieved %v, lost %v", receipt.Durability, receipt.Lost)
	}
}

// case 189: paths beyond MAX_PATH, and the extended form of one.
func TestLongRoot(t *testing.T) {
	base := t.TempDir()
	deep := base
	for range 12 {
		deep = filepath.Join(deep, strings.Repeat("d", 40))
	}
	must(t, os.MkdirAll(deep, 0o755))
	for _, dir := range []string{deep, `\\?\` + deep} {
		r, err := Open(dir, Workspace())
		must(t, err)
		_, err = r.Put("a/b", []byte("deep"), PutOptions{Parents: true})
		must(t, err)
		holds(t, deep, `a\b`, "deep")
		must(t, r.RemoveAll("a"))
		must(t, r.Close())
	}
}

// case 190: names that differ in case are one.
func TestCaseInsensitive(t *testing.T) {
	r, dir := openTree(t, Workspace())
	want(t, "Mkdir", r.Mkdir("DIR", 0o755), fs.ErrExist)
	data, err := r.ReadFile("Dir/FILE")
	if err != nil || string(data) != "file" {
		t.Errorf("%q, %v", data, err)
	}
	must(t, r.RemoveAll("DIR"))
	if got := listed(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("the root holds %q", got)
	}
}

// cases 50, 51, 57: spellings that Windows reads as something else are refused
// before any call, and make nothing.
func TestSpellingsOfWindows(t *testing.T) {
	r, dir := openTree(t, Compat())
	for _, name := range []string{"f:stream", "f::$DATA", "dir:x/file", "CON", "dir/nul", "aux.txt", "trail.", "trail ", "dir./file", `C:f`, `C:\f`,
		`\\?\C:\f`, `\\server\share\f`, `\f`, `dir\..\..\outside\secret`, "COM¹", "f\x00", "a<b", "a*b"} {
		_, err := r.Put(name, nil, PutOptions{})
		if Code(err) != "name" && Code(err) != "escape" {
			t.Errorf("Put(%q): %v", name, err)
		}
		_, err = r.ReadFile(name)
		if Code(err) != "name" && Code(err) != "escape" {
			t.Errorf("ReadFile(%q): %v", name, err)
		}
	}
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f"}) {
		t.Errorf("the root holds %q", got)
	}
}

// A mode for the owner alone is a protected access list from the first moment.
func TestPrivateAccess(t *testing.T) {
	r, dir := openTree(t, Workspace())
	_, err := r.Put("private", nil, PutOptions{})
	must(t, err)
	_, err = r.Put("shared", nil, PutOptions{Mode: 0o644})
	must(t, err)
	must(t, r.Mkdir("privatedir", 0o700))
	for name, private := range map[string]bool{"private": true, "privatedir": true, "shared": false} {
		sd, err := windows.GetNamedSecurityInfo(filepath.Join(dir, name), windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		must(t, err)
		list, _, err := sd.DACL()
		must(t, err)
		// Under Wine the list is kept as a Unix mode, so what it grants is
		// compared and not how it is written.
		everyone := strings.Contains(sd.String(), ";WD)")
		if private == everyone || list == nil {
			t.Errorf("%s: %s", name, sd)
		}
	}
}

// A junction or link is removed as a leaf and never entered (case 183).
func TestLinksOfWindows(t *testing.T) {
	r, dir := openTree(t, Compat())
	err := r.Symlink(`dir\file`, "lk")
	if errors.Is(err, windows.ERROR_NOT_SUPPORTED) || errors.Is(err, windows.ERROR_PRIVILEGE_NOT_HELD) {
		t.Skip("no symbolic links here: ", err)
	}
	must(t, err)
	data, err := r.ReadFile("lk")
	if err != nil || string(data) != "file" {
		t.Errorf("through the link: %q, %v", data, err)
	}
	must(t, r.Symlink(`..\outside`, "out"))
	_, err = r.ReadFile(`out\secret`)
	want(t, "through a link out", err, ErrEscape)
	must(t, r.RemoveAll("out"))
	must(t, r.Symlink("dir", "lkdir"))
	must(t, r.RemoveAll("lkdir"))
	holds(t, dir, `dir\file`, "file")
}

// A failed symbolic link leaves nothing.
func TestSymlinkLeavesNothing(t *testing.T) {
	if !testfs.UnderWine() {
		t.Skip("only Wine takes the call and makes nothing")
	}
	r, dir := openTree(t, Compat())
	want(t, "Symlink", r.Symlink("f", "lk"), windows.ERROR_NOT_SUPPORTED)
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f"}) {
		t.Errorf("the root holds %q", got)
	}
}

// Under Wine the numbers of files come from the kernel below: they tell one use
// of a number from the next, and stay as long as the file is the same.
func TestFileNumbersOfWine(t *testing.T) {
	if !testfs.UnderWine() {
		t.Skip("the numbers are those of the file system")
	}
	r, dir := openTree(t, Workspace())
	for range 50 {
		old, err := r.Receipt("f")
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("changed"), 0o644))
		now, err := r.Receipt("f")
		must(t, err)
		if v, why := identity.Compare(old.ID, now.ID); v != identity.Same {
			t.Fatalf("a written file: %v by %v", v, why)
		}
		must(t, r.Remove("f"))
		must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o644))
		now, err = r.Receipt("f")
		must(t, err)
		if v, why := identity.Compare(old.ID, now.ID); v == identity.Same {
			t.Fatalf("a file made anew: %v by %v", v, why)
		}
	}
}
