package caproot

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// untouched sees that the tree of eachResolver has what it began with.
func untouched(t *testing.T, base string) {
	t.Helper()
	if got := content(t, base, "f"); got != "content" {
		t.Errorf("f holds %q", got)
	}
	if _, err := os.Lstat(base + "/root/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("new: %v", err)
	}
	noStage(t, base)
}

func TestPutLimits(t *testing.T) {
	p := Workspace()
	p.MaxWriteBytes = 8
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		_, err := r.Put("sub/deep/f", make([]byte, 9), PutOptions{Parents: true})
		want(t, "above the policy", err, ErrTooLarge)
		_, err = r.Put("sub/f", make([]byte, 5), PutOptions{Parents: true, MaxBytes: 4})
		want(t, "above the option", err, ErrTooLarge)
		_, err = r.Put("f", make([]byte, 9), PutOptions{MaxBytes: 100})
		want(t, "the option does not widen", err, ErrTooLarge)
		_, err = r.Put("f", nil, PutOptions{MaxBytes: -1})
		want(t, "negative", err, ErrOption)
		untouched(t, base)
		if _, err := os.Lstat(base + "/root/sub"); err == nil {
			t.Error("a refused Put made the parent")
		}
		_, err = r.Put("f", make([]byte, 8), PutOptions{MaxBytes: 8})
		must(t, err)
	})
}

func wantMode(t *testing.T, base, name string, mode fs.FileMode) {
	t.Helper()
	i, err := os.Lstat(base + "/root/" + name)
	must(t, err)
	if got := i.Mode() & allModes; got != kept(mode, i.IsDir()) {
		t.Errorf("%s: mode %v, want %v", name, got, mode)
	}
}

func TestPutKeepsMode(t *testing.T) {
	p := Workspace()
	p.Modes |= fs.ModeSetgid
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		for _, mode := range []fs.FileMode{0o644, 0o600, 0o755, 0o400, 0o750 | fs.ModeSetgid} {
			must(t, os.Chmod(base+"/root/f", mode))
			_, err := r.Put("f", []byte("x"), PutOptions{})
			must(t, err)
			wantMode(t, base, "f", mode)
		}
		must(t, os.Chmod(base+"/root/f", 0o666|fs.ModeSetuid))
		_, err := r.Put("f", []byte("x"), PutOptions{})
		must(t, err)
		wantMode(t, base, "f", 0o664) // what the policy has of it
		_, err = r.Put("f", nil, PutOptions{Mode: 0o666})
		want(t, "a mode the policy does not have", err, ErrPolicy)
		_, err = r.Put("f", nil, PutOptions{Mode: 0o4755})
		must(t, err) // bit 0o4000 is none of fs.FileMode
		_, err = r.Put("f", nil, PutOptions{Mode: 0o755 | fs.ModeSetuid})
		want(t, "setuid", err, ErrPolicy)
		_, err = r.Put("d/f", nil, PutOptions{Parents: true, ParentMode: 0o777})
		want(t, "parent mode", err, ErrPolicy)
	})
}

// case 84: parents that are there keep their mode.
func TestPutLeavesExistingParents(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		defer umask(0o002)()
		must(t, os.Chmod(base+"/root/dir", 0o700))
		_, err := r.Put("dir/sub/f", nil, PutOptions{Parents: true, ParentMode: 0o755})
		must(t, err)
		wantMode(t, base, "dir", 0o700)
		wantMode(t, base, "dir/sub", 0o755)
	})
}

func TestPutRights(t *testing.T) {
	for name, c := range map[string]struct {
		lacks Rights
		put   func(r *Root) error
	}{
		"new file":    {Create, func(r *Root) error { _, err := r.Put("new", nil, PutOptions{}); return err }},
		"replace":     {Replace, func(r *Root) error { _, err := r.Put("f", nil, PutOptions{}); return err }},
		"parents":     {Mkdir, func(r *Root) error { _, err := r.Put("new/f", nil, PutOptions{Parents: true}); return err }},
		"new, deeper": {Create, func(r *Root) error { _, err := r.Put("new/f", nil, PutOptions{Parents: true}); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			p := Workspace()
			p.Rights &^= c.lacks
			eachResolver(t, p, func(t *testing.T, r *Root, base string) {
				err := c.put(r)
				want(t, "Put", err, ErrPolicy)
				want(t, "Put", err, fs.ErrPermission)
				untouched(t, base)
			})
		})
	}
}

// case 88: what stands for the target, or in its way.
func TestPutOverOtherTypes(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		needsLinks(t)
		mkfifo(t, base+"/root/fifo")
		symlink(t, "missing", base+"/root/dangling")
		for name, cause := range map[string]error{"lk": ErrSymlink, "dangling": ErrSymlink, "abs": ErrSymlink, "dir": syscall.EISDIR,
			"fifo": ErrSpecial, "f/": syscall.EISDIR, "new/": syscall.EISDIR, "f/x": syscall.ENOTDIR, "no/x": fs.ErrNotExist} {
			_, err := r.Put(name, []byte("x"), PutOptions{})
			want(t, name, err, cause)
		}
		untouched(t, base)
	})
	p := Workspace()
	p.MutationLinks = LinksFollow
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		symlink(t, "made", base+"/root/dangling")
		symlink(t, "dangling", base+"/root/chain")
		for name, path := range map[string]string{"lk": "f", "chain": "made"} {
			receipt, err := r.Put(name, []byte(name), PutOptions{})
			must(t, err)
			if receipt.Path != path || content(t, base, path) != name {
				t.Errorf("%s went to %q", name, receipt.Path)
			}
		}
		_, err := r.Put("abs", nil, PutOptions{})
		want(t, "abs", err, ErrEscape)
	})
}

// case 93: the stage's name does not grow from the target's.
func TestPutLongestName(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, name := range []string{strings.Repeat("n", 255), strings.Repeat("€", 85)} {
			for range 2 {
				receipt, err := r.Put(name, []byte("x"), PutOptions{})
				must(t, err)
				_, err = r.Put(name, []byte("y"), PutOptions{IfMatch: &receipt})
				must(t, err)
			}
		}
		_, err := r.Put(strings.Repeat("n", 256), nil, PutOptions{})
		if err == nil {
			t.Error("256 bytes fit")
		}
		noStage(t, base)
	})
}

// case 91: many writers of one name all succeed, and one whole content stays.
func TestManyWriters(t *testing.T) {
	notUnderWine(t, "renames over no file that is open")
	for _, d := range []Durability{DurabilityNone, DurabilityVolatile} {
		eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for range 8 {
						if _, err := r.Put("f", bytes.Repeat([]byte{byte(i)}, 5000), PutOptions{Durability: d}); err != nil {
							t.Errorf("writer %d: %v", i, err)
						}
					}
				})
			}
			wg.Wait()
			got := content(t, base, "f")
			if len(got) != 5000 || strings.Count(got, got[:1]) != 5000 {
				t.Errorf("%d bytes, torn", len(got))
			}
			noStage(t, base)
		})
	}
}

// volatile lets a call ask for the exchange that skips the file system's flush.
func volatile() Policy {
	p := Workspace()
	p.Durability = DurabilityVolatile
	return p
}
