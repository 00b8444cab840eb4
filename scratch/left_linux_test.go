package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// What cannot be removed keeps the witness, so that a later sweep finishes.
func TestSweepKeepsWitness(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	_, tmp, r := place(t)
	named := left(t, tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	mounted := filepath.Join(named, contentName, "deep")
	mountTmpfs(t, mounted, "")
	wantFDs(t, "Sweep", func() {
		removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
		if len(removed) != 0 || err == nil {
			t.Errorf("swept %q: %v", removed, err)
		}
	})
	wantNames(t, named, contentName, ownerName)
	must(t, unix.Unmount(mounted, 0))
	wantFDs(t, "Sweep", func() {
		removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
		if len(removed) != 1 || err != nil {
			t.Errorf("swept %q: %v", removed, err)
		}
	})
	wantNames(t, tmp)
}

// A Remove that fails still holds the lock, and may be called again.
func TestRemoveKeepsWitness(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	_, tmp, r := place(t)
	wantFDs(t, "New and Remove", func() {
		d, err := New(r, "tmp", Options{Prefix: prefix})
		must(t, err)
		must(t, d.Root().Mkdir("mounted", 0o700))
		named := filepath.Join(tmp, d.Name())
		mounted := filepath.Join(named, contentName, "mounted")
		mountTmpfs(t, mounted, "")
		if err := d.Remove(); err == nil {
			t.Error("removed a mount point")
		}
		wantNames(t, named, contentName, ownerName)
		if removed, err := Sweep(t.Context(), r, "tmp", prefix, 0); len(removed) != 0 || err != nil {
			t.Errorf("swept %q of the living: %v", removed, err)
		}
		must(t, unix.Unmount(mounted, 0))
		must(t, d.Remove())
	})
	wantNames(t, tmp)
}

// Modes that keep the owner out are no obstacle, the content's own included.
func TestReadOnlyContent(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for _, sweeps := range []bool{false, true} {
		_, tmp, r := place(t)
		var d *Dir
		named := filepath.Join(tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
		if sweeps {
			left(t, tmp, filepath.Base(named))
		} else {
			var err error
			d, err = New(r, "tmp", Options{Prefix: prefix})
			must(t, err)
			named = filepath.Join(tmp, d.Name())
			must(t, os.Mkdir(filepath.Join(named, contentName, "deep"), 0o700))
			must(t, os.WriteFile(filepath.Join(named, contentName, "deep", "file"), nil, 0o600))
		}
		must(t, os.Chmod(filepath.Join(named, contentName, "deep"), 0o555))
		must(t, os.Chmod(filepath.Join(named, contentName), 0o500))
		if sweeps {
			_, err := Sweep(t.Context(), r, "tmp", prefix, 0)
			must(t, err)
		} else {
			must(t, d.Remove())
		}
		wantNames(t, tmp)
	}
}

// Content that was moved is emptied where it is, read-only directories too.
func TestReadOnlyMoved(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir, tmp, r := place(t)
	d, err := New(r, "tmp", Options{Prefix: prefix})
	must(t, err)
	_, err = d.Root().Put("deep/file", nil, caproot.PutOptions{Parents: true})
	must(t, err)
	moved := filepath.Join(dir, "moved")
	must(t, os.Rename(filepath.Join(tmp, d.Name(), contentName), moved))
	must(t, os.Chmod(filepath.Join(moved, "deep"), 0o555))
	must(t, d.Remove())
	wantNames(t, moved)
	wantNames(t, tmp)
}

// Without a right, or with no room for a step, New leaves nothing: no name, no
// descriptor.
func TestNewFails(t *testing.T) {
	dir, tmp, _ := place(t)
	for _, missing := range []caproot.Rights{caproot.Read, caproot.List, caproot.Create, caproot.Modify, caproot.Mkdir} {
		p := caproot.Workspace()
		p.Rights &^= missing
		r, err := caproot.Open(dir, p)
		must(t, err)
		wantFDs(t, missing.String(), func() {
			if d, err := New(r, "tmp", Options{Prefix: prefix}); err == nil {
				t.Errorf("made without %v", missing)
				must(t, d.Remove())
			}
		})
		wantNames(t, tmp)
		must(t, r.Close())
	}
}

func TestNewWithoutInodes(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	dir := t.TempDir()
	mountTmpfs(t, dir, "nr_inodes=2")
	tmp := filepath.Join(dir, "tmp")
	must(t, os.Mkdir(tmp, 0o700))
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	defer r.Close()
	for inodes, made := 2, false; !made; inodes++ {
		if inodes > 10 {
			t.Fatalf("no scratch directory with %d inodes", inodes)
		}
		must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "nr_inodes="+string(rune('0'+inodes))))
		wantFDs(t, "New", func() {
			d, err := New(r, "tmp", Options{Prefix: prefix})
			if made = err == nil; made {
				must(t, d.Remove())
			} else if !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%d inodes: %v", inodes, err)
			}
		})
		wantNames(t, tmp)
	}
}

// What New may not remove when it fails it leaves to a sweep, and nothing open.
func TestNewLeavesToSweep(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	dir := t.TempDir()
	mountTmpfs(t, dir, "nr_inodes=4") // for all but the content
	tmp := filepath.Join(dir, "tmp")
	must(t, os.Mkdir(tmp, 0o700))
	p := caproot.Workspace()
	p.Rights &^= caproot.Remove
	weak, err := caproot.Open(dir, p)
	must(t, err)
	defer weak.Close()
	wantFDs(t, "New", func() {
		if _, err := New(weak, "tmp", Options{Prefix: prefix}); !errors.Is(err, unix.ENOSPC) || !errors.Is(err, caproot.ErrPolicy) {
			t.Errorf("New: %v", err)
		}
	})
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	defer r.Close()
	removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
	if len(removed) != 1 || err != nil {
		t.Errorf("swept %q: %v", removed, err)
	}
	wantNames(t, tmp)
}

// A process that is killed while it makes the lock's file leaves a stage, before
// or after that file has its name.
func TestSweepStage(t *testing.T) {
	const stage = stagePrefix + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	_, tmp, r := place(t)
	before := filepath.Join(tmp, "job-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	must(t, os.Mkdir(before, 0o700))
	must(t, os.WriteFile(filepath.Join(before, stage), nil, 0o600))
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(before, old, old))
	after := left(t, tmp, "job-BBCDEFGHIJKLMNOPQRSTUVWXYZ")
	must(t, os.Link(filepath.Join(after, ownerName), filepath.Join(after, stage)))
	stranger := filepath.Join(tmp, "job-CBCDEFGHIJKLMNOPQRSTUVWXYZ")
	must(t, os.Mkdir(stranger, 0o700))
	for _, name := range []string{stage, "other"} {
		must(t, os.WriteFile(filepath.Join(stranger, name), nil, 0o600))
	}
	must(t, os.Chtimes(stranger, old, old))
	removed, err := Sweep(t.Context(), r, "tmp", prefix, 0)
	if len(removed) != 2 || err != nil {
		t.Errorf("swept %q: %v", removed, err)
	}
	wantNames(t, tmp, filepath.Base(stranger))
	wantNames(t, stranger, stage, "other")
}
