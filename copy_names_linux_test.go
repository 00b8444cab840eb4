package caproot

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

// between acts once, when the second directory with files has been listed and
// what the first one has is copied.
type between struct {
	system
	act    func()
	files  int
	listed int
	copied chan struct{}
}

func (b *between) list(dir handle, scratch []byte) ([]direntry, error) {
	entries, err := b.system.list(dir, scratch)
	if len(entries) > 0 && entries[0].mode.IsRegular() {
		if b.listed++; b.listed == 2 {
			for range b.files {
				<-b.copied
			}
			b.act()
		}
	}
	return entries, err
}

// numberless has no evidence but numbers.
type numberless struct{ *between }

func (n numberless) identify(h handle) (identity.ID, error) {
	id, err := n.system.identify(h)
	return identity.ID{Dev: id.Dev, Ino: id.Ino, Mount: id.Mount, Type: id.Type}, err
}

// pairs makes files that have a name in each of two directories.
func pairs(t *testing.T, base string, files int) {
	t.Helper()
	for _, dir := range []string{"1", "2"} {
		must(t, os.MkdirAll(base+"/root/src/"+dir, 0o755))
	}
	for i := range files {
		must(t, os.WriteFile(fmt.Sprintf("%s/root/src/1/%d", base, i), fmt.Appendf(nil, "old %d", i), 0o644))
		must(t, os.Link(fmt.Sprintf("%s/root/src/1/%d", base, i), fmt.Sprintf("%s/root/src/2/%d", base, i)))
	}
}

// copyBetween copies src to twin/copy by one and by four workers and acts between
// its two directories. check is called with the copies of both names of file i,
// that made before the act first.
func copyBetween(t *testing.T, files int, numbers bool, act func(base string), check func(i int, first, second string)) {
	t.Helper()
	for _, workers := range []int{1, 4} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			pairs(t, base, files)
			to := twin(t, r, base)
			defer to.Close()
			b := &between{system: r.sys, files: files, copied: make(chan struct{}, 2*files), act: func() { act(base) }}
			if r.sys = b; numbers {
				r.sys = numberless{b}
			}
			defer func() { r.sys = b.system }()
			var order string // of the directories
			o := TreeCopyOptions{Hardlinks: LinksKeep, Workers: workers}
			o.File.Durability = DurabilityNone
			o.Copied = func(receipt identity.Receipt) {
				if receipt.Op == "mkdir" {
					order += receipt.Path[len("copy/"):]
					return
				}
				b.copied <- struct{}{}
			}
			report, err := to.CopyTree(t.Context(), "copy", r, "src", o)
			must(t, err)
			if report.Files != int64(2*files) {
				t.Errorf("%+v", report)
			}
			for i := range files {
				check(i, fmt.Sprintf("%s/twin/copy/%c/%d", base, order[0], i), fmt.Sprintf("%s/twin/copy/%c/%d", base, order[1], i))
			}
		})
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	must(t, err)
	y, err := os.Stat(b)
	must(t, err)
	return os.SameFile(x, y)
}

// case 68: a file that is gone leaves its number to another one, which is not made
// a further name of its copy. The window is between the copies of the two names;
// without the act the copy has the same links.
func TestCopyTreeNumberUsedAgain(t *testing.T) {
	const files = 3 * maxFirst
	if dir := t.TempDir(); !reusesNumbers(t, dir) {
		t.Skip("the file system does not use file numbers again at once")
	}
	name := func(base, dir string, i int) string { return fmt.Sprintf("%s/root/src/%s/%d", base, dir, i) }
	copyBetween(t, files, false, func(base string) {
		for _, dir := range []string{"1", "2"} {
			for i := range files {
				must(t, os.Remove(name(base, dir, i)))
			}
		}
		for i := range files {
			must(t, os.WriteFile(name(base, "1", i), fmt.Appendf(nil, "new %d", i), 0o644))
			must(t, os.Link(name(base, "1", i), name(base, "2", i)))
		}
	}, func(i int, first, second string) {
		holds(t, "", first, fmt.Sprintf("old %d", i))
		holds(t, "", second, fmt.Sprintf("new %d", i))
	})
	copyBetween(t, files, false, func(string) {}, func(i int, first, second string) {
		if holds(t, "", second, fmt.Sprintf("old %d", i)); !same(t, first, second) {
			t.Errorf("%s is no further name of %s", second, first)
		}
	})
}

func reusesNumbers(t *testing.T, dir string) bool {
	t.Helper()
	var last fs.FileInfo
	for range 2 {
		must(t, os.WriteFile(dir+"/f", nil, 0o644))
		now, err := os.Stat(dir + "/f")
		must(t, err)
		must(t, os.Remove(dir+"/f"))
		if last != nil && os.SameFile(last, now) {
			return true
		}
		last = now
	}
	return false
}

// case 68: where nothing but numbers tells files apart, a name that comes when the
// first one is not open any more becomes a file of its own.
func TestCopyTreeNumbersProveNothing(t *testing.T) {
	const files = 3 * maxFirst
	linked := 0
	copyBetween(t, files, true, func(string) { linked = 0 }, func(i int, first, second string) {
		if holds(t, "", second, fmt.Sprintf("old %d", i)); same(t, first, second) {
			linked++
		}
		if i == files-1 && linked != maxFirst {
			t.Errorf("%d links, want %d", linked, maxFirst)
		}
	})
}

// A file that is written in place between the copies of its two names is copied
// again, also when its size and time of modification are what they were.
func TestCopyTreeWrittenBetweenNames(t *testing.T) {
	copyBetween(t, 1, false, func(base string) {
		path := base + "/root/src/1/0"
		was, err := os.Stat(path)
		must(t, err)
		for now := was; now.Sys() != nil; { // until the clock of the file system has gone on
			time.Sleep(time.Millisecond)
			must(t, os.WriteFile(path, []byte("new 0"), 0o644))
			now, err = os.Stat(path)
			if must(t, err); now.ModTime() != was.ModTime() {
				break
			}
		}
		must(t, os.Chtimes(path, time.Time{}, was.ModTime()))
	}, func(_ int, first, second string) {
		holds(t, "", first, "old 0")
		if holds(t, "", second, "new 0"); same(t, first, second) {
			t.Error("the two contents are one file")
		}
	})
}

// The other end of a kept link is not proved: a name of the copy that another process
// replaced meanwhile gets the further name for what it has then.
func TestCopyTreeLinksToWhatTheCopyHas(t *testing.T) {
	copyBetween(t, 1, false, func(base string) {
		for _, dir := range []string{"1", "2"} {
			name := fmt.Sprintf("%s/twin/copy/%s/0", base, dir)
			if os.Remove(name) == nil {
				must(t, os.WriteFile(name, []byte("theirs"), 0o600))
			}
		}
	}, func(_ int, first, second string) {
		data, err := os.ReadFile(second)
		must(t, err)
		if !same(t, first, second) || string(data) != "theirs" {
			t.Errorf("%s, %q", second, data)
		}
	})
}
