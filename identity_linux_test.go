package caproot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// eachFileSystem runs a test on the file systems at hand, by their names.
func eachFileSystem(t *testing.T, test func(t *testing.T, kind, dir string)) {
	seen := map[string]bool{}
	for _, dir := range []string{t.TempDir(), shm(t)} {
		var st unix.Statfs_t
		must(t, unix.Statfs(dir, &st))
		kind := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay"}[int64(st.Type)]
		if kind == "" {
			kind = "other"
		}
		if !seen[kind] {
			seen[kind] = true
			t.Run(kind, func(t *testing.T) { test(t, kind, dir) })
		}
	}
}

// cases 68, 78: a file that comes in the place of another, with its name, size
// and times, is not taken for it; where numbers come back at once that is known
// for certain.
func TestReceiptOfReplacedFile(t *testing.T) {
	eachFileSystem(t, func(t *testing.T, kind, dir string) {
		r, err := Open(dir, Workspace())
		must(t, err)
		defer r.Close()
		at := time.Unix(1_700_000_000, 0)
		reused := 0
		for range 50 {
			must(t, os.WriteFile(dir+"/f", []byte("same"), 0o600))
			must(t, r.Chtimes("f", at, at))
			old, err := r.Receipt("f")
			must(t, err)
			must(t, os.Remove(dir+"/f"))
			must(t, os.WriteFile(dir+"/f", []byte("same"), 0o600))
			must(t, r.Chtimes("f", at, at))
			now, err := r.Receipt("f")
			must(t, err)
			if old.Size != now.Size || !old.ModTime.Equal(now.ModTime) {
				t.Fatal("the twin is no twin")
			}
			if old.ID.Dev == now.ID.Dev && old.ID.Ino == now.ID.Ino {
				reused++
			}
			v, why := old.Compare(now)
			if v == identity.Same || kind == "ext4" && v != identity.Different {
				t.Fatalf("%v by %s", v, why)
			}
			want(t, "Check", r.Check(old), ErrChanged)
			want(t, "RemoveIf", r.RemoveIf("f", old), ErrChanged)
			_, err = r.Put("f", nil, PutOptions{IfMatch: &old})
			want(t, "IfMatch", err, ErrChanged)
			_, err = r.Move("f", "g", MoveOptions{IfMatch: &old})
			want(t, "Move", err, ErrChanged)
			must(t, r.Check(now))
			must(t, os.Remove(dir+"/f"))
		}
		if kind == "ext4" && reused == 0 {
			t.Error("no number came back: the test shows nothing")
		}
	})
}

// A receipt survives being written down, and everything it allowed.
func TestReceiptRoundTrip(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/a/b", 0o755))
		for _, name := range []string{"a/b/f", "in/Ünïcode €", "dir/\xff\xfe not UTF-8"} {
			written, err := r.Put(name, []byte("content"), PutOptions{Digest: true, Ancestry: true})
			must(t, err)
			text, err := json.Marshal(written)
			must(t, err)
			var read identity.Receipt
			must(t, json.Unmarshal(text, &read))
			read.ModTime = read.ModTime.Local()
			if diff := cmp.Diff(written, read); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
			must(t, r.Check(read))
			observed, err := r.Receipt(name, WithDigest, WithAncestry)
			must(t, err)
			for what, same := range map[string]bool{"id": observed.ID == read.ID, "root": observed.Root == read.Root, "path": observed.Path == read.Path,
				"ancestry": slices.Equal(observed.Ancestry, read.Ancestry), "digest": observed.SHA256 == read.SHA256} {
				if !same {
					t.Errorf("%s: another %s: %+v, %+v", name, what, observed, read)
				}
			}
			must(t, r.RemoveIf(name, read))
		}
	})
}

func TestReceiptTells(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Link(base+"/root/f", base+"/root/hard"))
		sum := sha256.Sum256([]byte("content"))
		receipt, err := r.Receipt("lk", WithDigest)
		must(t, err)
		if receipt.Path != "f" || receipt.SHA256 != hex.EncodeToString(sum[:]) || receipt.Nlink != 2 || receipt.Size != 7 ||
			receipt.Mode != 0o644 || receipt.Published != identity.Unpublished || receipt.Op != "receipt" {
			t.Errorf("%+v", receipt)
		}
		must(t, r.Check(receipt))
		for name, path := range map[string]string{"dir": "dir", "in": "dir", "in/": "dir", ".": ".", "dir/..": ".", "dir/../in/file": "dir/file"} {
			receipt, err := r.Receipt(name, WithDigest, WithAncestry)
			must(t, err)
			if receipt.Path != path || receipt.Mode.IsDir() != (receipt.SHA256 == "") || len(receipt.Ancestry) != strings.Count(path, "/") {
				t.Errorf("%s: %+v", name, receipt)
			}
			must(t, r.Check(receipt))
		}
		for name, cause := range map[string]error{"out": ErrEscape, "abs": ErrEscape, "no": fs.ErrNotExist, "f/": syscall.ENOTDIR, "lk/": syscall.ENOTDIR,
			"f/x": syscall.ENOTDIR, "..": ErrEscape} {
			receipt, err := r.Receipt(name, WithDigest, WithAncestry)
			want(t, name, err, cause)
			if diff := cmp.Diff(identity.Receipt{}, receipt); diff != "" {
				t.Errorf("%s: a receipt comes with the error: %s", name, diff)
			}
		}
	})
	p := Workspace()
	p.Links = LinksFollowParents
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		_, err := r.Receipt("lk")
		want(t, "a link that is not followed", err, ErrSymlink)
	})
	p = Workspace()
	p.Rights &^= Read
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		_, err := r.Receipt("f")
		must(t, err)
		_, err = r.Receipt("f", WithDigest)
		want(t, "digest without Read", err, ErrPolicy)
	})
}

// A directory of the path that is replaced while a receipt is written: the
// ancestry would be of another path.
func TestAncestryNoticesReplacement(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for name, attack := range map[string]func() error{
			"another directory": func() error {
				return errors.Join(os.Rename(base+"/root/dir", base+"/root/away"), os.Mkdir(base+"/root/dir", 0o755))
			},
			"gone": func() error { return os.Rename(base+"/root/dir", base+"/root/away") },
			"a link to outside": func() error {
				return errors.Join(os.Rename(base+"/root/dir", base+"/root/away"), os.Symlink("../outside", base+"/root/dir"))
			},
		} {
			s := hook(r, nth(1, "identify file", func() { must(t, attack()) }))
			_, err := r.Receipt("dir/file", WithAncestry)
			want(t, name, err, ErrChanged)
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v looks like absence", err)
			}
			r.sys = s.system
			must(t, os.RemoveAll(base+"/root/dir"))
			must(t, os.Rename(base+"/root/away", base+"/root/dir"))
		}
	})
}

// A file that is replaced, or becomes a FIFO, between the look and the digest.
func TestDigestNoticesReplacement(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for name, c := range map[string]struct {
			attack func() error
			cause  error
		}{
			"replaced": {func() error { theirs(t, base, "theirs!"); return nil }, ErrChanged},
			"fifo":     {func() error { return errors.Join(os.Remove(base+"/root/f"), unix.Mkfifo(base+"/root/f", 0o600)) }, ErrChanged},
		} {
			must(t, os.RemoveAll(base+"/root/f"))
			must(t, os.WriteFile(base+"/root/f", []byte("content"), 0o644))
			s := hook(r, nth(2, "open f", func() { must(t, c.attack()) }))
			_, err := r.Receipt("f", WithDigest)
			want(t, name, err, c.cause)
			r.sys = s.system
		}
	})
	// One that grows while it is read meets the limit.
	p := Workspace()
	p.MaxReadBytes = 50
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		hook(r, nth(1, "read", func() { must(t, os.Truncate(base+"/root/f", 60)) }))
		_, err := r.Receipt("f", WithDigest)
		want(t, "grown", err, ErrTooLarge)
	})
}

// case 72, 73: where the numbers of one object differ between two looks, calls
// that act by identity fail closed.
func TestIdentityOnStrangeFileSystem(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f")
		must(t, err)
		r.sys = &shifting{system: r.sys}
		want(t, "RemoveIf", r.RemoveIf("f", old), ErrChanged)
		_, err = r.Put("f", nil, PutOptions{IfMatch: &old})
		want(t, "IfMatch", err, ErrChanged)
		noStage(t, base)
		_, err = r.Put("f", nil, PutOptions{})
		want(t, "Put", err, ErrChanged)
		// Nor is the stage removed, which cannot be proved to be the stage.
		must(t, os.Remove(stageIn(t, base)))
		untouched(t, base)
	})
}

// shifting gives another number to what is looked at by name than by handle.
type shifting struct{ system }

func (s *shifting) stat(d handle, name string, full bool) (status, error) {
	st, err := s.system.stat(d, name, full)
	if name != "" {
		st.ino++
	}
	return st, err
}

// case 69: what the file system does not tell is unknown, and no match.
func TestUnknownIdentityIsNoMatch(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		r.sys = blind{r.sys}
		for range 2 {
			now, err := r.Receipt("f")
			must(t, err)
			err = r.Check(now)
			var why *MismatchError
			if !errors.As(err, &why) || why.Verdict != identity.Unknown {
				t.Errorf("Check: %v", err)
			}
			want(t, "RemoveIf", r.RemoveIf("f", now), ErrChanged)
		}
		untouched(t, base)
	})
}

// blind knows device, number and type only.
type blind struct{ system }

func (b blind) identify(h handle) (identity.ID, error) {
	id, err := b.system.identify(h)
	return identity.ID{Dev: id.Dev, Ino: id.Ino, Type: id.Type}, err
}
