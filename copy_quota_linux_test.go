package caproot

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// treeOf makes the root that a copy is made of and the one it is made in.
func treeOf(t *testing.T, src string) (to, from *Root, dir string) {
	t.Helper()
	dir = t.TempDir()
	to, err := Open(dir, Compat())
	must(t, err)
	t.Cleanup(func() { to.Close() })
	from, err = Open(src, Compat())
	must(t, err)
	t.Cleanup(func() { from.Close() })
	return to, from, dir
}

// bytesIn is what the files of a directory hold, each name counted.
func bytesIn(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		n += info.Size()
	}
	return n
}

// A file of procfs tells the size 0, whatever it holds.
func TestCopyTreeCountsWhatHasNoSize(t *testing.T) {
	const source = "/proc/sys/kernel/random"
	if data, err := os.ReadFile(source + "/boot_id"); err != nil || len(data) < 36 {
		t.Skip("no procfs to copy from")
	}
	for _, workers := range []int{1, 4} {
		for _, clone := range []CloneRule{CloneAuto, CloneNever} {
			to, from, dir := treeOf(t, source)
			o := TreeCopyOptions{Workers: workers, GoOn: true, File: CopyOptions{Clone: clone}}
			report, err := to.CopyTree(t.Context(), "whole", from, ".", o)
			must(t, err)
			if all := bytesIn(t, dir+"/whole"); report.Bytes != all || all < 37 {
				t.Errorf("reported %d bytes, %d are there", report.Bytes, all)
			}
			o.MaxBytes = 20
			report, err = to.CopyTree(t.Context(), "part", from, ".", o)
			want(t, "20 bytes", err, ErrTooLarge)
			if there := bytesIn(t, dir+"/part"); there > 20 || there != report.Bytes {
				t.Errorf("reported %d bytes, %d are there", report.Bytes, there)
			}
		}
	}
}

var errAny = errors.New("exists or too large")

// A second name of a file costs nothing, and neither does what was not copied.
func TestCopyTreeCountsWhatItWrote(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for what, c := range map[string]struct {
			max   int64
			links LinkCopy
			there string // stands in the way
			bytes int64
			err   error
		}{
			"linked":           {10, LinksKeep, "", 10, nil},
			"linked, too much": {9, LinksKeep, "", 0, ErrTooLarge},
			"not linked":       {20, LinksSkip, "", 20, nil},
			"one of two":       {19, LinksSkip, "", 10, ErrTooLarge},
			// The first of the two in the directory's order, or the second.
			"failed": {10, LinksSkip, "a", 10, errAny},
		} {
			src := t.TempDir()
			must(t, os.WriteFile(src+"/a", []byte("0123456789"), 0o644))
			must(t, os.Link(src+"/a", src+"/b"))
			to, from, dir := treeOf(t, src)
			must(t, os.Mkdir(dir+"/copy", 0o755))
			if c.there != "" {
				must(t, os.WriteFile(dir+"/copy/"+c.there, nil, 0o644))
			}
			report, err := to.CopyTree(t.Context(), "copy", from, ".", TreeCopyOptions{
				Workers: workers, GoOn: true, MaxBytes: c.max, Hardlinks: c.links, File: CopyOptions{PutOptions: PutOptions{NoReplace: true}},
			})
			if c.err != errAny {
				want(t, what, err, c.err)
			} else if !errors.Is(err, os.ErrExist) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", what, err)
			}
			if report.Bytes != c.bytes {
				t.Errorf("%s, %d workers: %d bytes, want %d", what, workers, report.Bytes, c.bytes)
			}
		}
	}
}

// A copy with a context that has ended touches nothing and costs nothing.
func TestCopyOfEndedContext(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	granted(t, Compat(), Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}}, func(t *testing.T, sub *Root, base string) {
		must(t, os.WriteFile(base+"/root/empty", nil, 0o644))
		before := seal(t, base+"/root")
		for what, copy := range map[string]func() error{
			"CopyTree": func() error {
				_, err := sub.CopyTree(ended, "new/copy", sub, "dir", TreeCopyOptions{})
				return err
			},
			"CopyIn": func() error {
				_, err := sub.CopyIn(ended, "new/copy", Source{Root: sub, Name: "f"}, CopyOptions{PutOptions: PutOptions{Parents: true}})
				return err
			},
			"CopyIn of nothing": func() error {
				_, err := sub.CopyIn(ended, "copy", Source{Root: sub, Name: "empty"}, CopyOptions{})
				return err
			},
		} {
			want(t, what, copy(), context.Canceled)
			if spent := sub.Spent(); spent != (Budget{}) {
				t.Errorf("%s: spent %+v", what, spent)
			}
		}
		if seal(t, base+"/root") != before {
			t.Error("changed")
		}
	})
}

// What a full disk does not take is not charged (case 94).
func TestBudgetOfAFullDisk(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	r, dir := smallDisk(t, "size=64k")
	sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}})
	must(t, err)
	defer sub.Close()
	data := []byte(strings.Repeat("x", 100<<10))
	for what, write := range map[string]func(name string) error{
		"WriteFile": func(n string) error { return sub.WriteFile(n, data, 0o644) },
		"Append":    func(n string) error { _, err := sub.Append(n, data, AppendOptions{}); return err },
	} {
		before := sub.Spent()
		if err := write(what); err == nil || Code(err) != "no-space" {
			t.Errorf("%s: %v", what, err)
		}
		info, err := os.Stat(dir + "/" + what)
		must(t, err)
		if spent := sub.Spent(); spent.Bytes-before.Bytes != info.Size() || spent.Files-before.Files != 1 {
			t.Errorf("%s: spent %+v, was %+v, the file has %d bytes", what, spent, before, info.Size())
		}
		must(t, os.Remove(dir+"/"+what))
	}
}

// A file whose size is not told does not wait for one beside it that may fail, and is
// refused while that holds the rest.
func TestQuotaOfUntoldSize(t *testing.T) {
	q := newQuota(10)
	var known, untold share
	must(t, known.begin(q, 8))
	must(t, untold.begin(q, 0))
	must(t, untold.grow(2))
	want(t, "while the other holds the rest", untold.grow(3), ErrTooLarge)
	known.end(false)
	must(t, untold.grow(10))
	want(t, "beyond all", untold.grow(11), ErrTooLarge)
}
