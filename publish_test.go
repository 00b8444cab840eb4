package caproot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

func TestPutReplacesWhole(t *testing.T) {
	r, dir := openTree(t, Workspace())
	receipt, err := r.Put("new", []byte("one"), PutOptions{Digest: true})
	must(t, err)
	holds(t, dir, "new", "one")
	if receipt.Published != identity.Created || receipt.SHA256 == "" || receipt.Path != "new" || receipt.Size != 3 {
		t.Errorf("receipt %+v", receipt)
	}
	receipt, err = r.Put("new", []byte("two"), PutOptions{})
	must(t, err)
	holds(t, dir, "new", "two")
	if receipt.Published != identity.Renamed {
		t.Errorf("receipt %+v", receipt)
	}
	_, err = r.Put("new", []byte("three"), PutOptions{NoReplace: true})
	want(t, "NoReplace", err, fs.ErrExist)
	_, err = r.Put("a/b/c", []byte("deep"), PutOptions{Parents: true})
	must(t, err)
	holds(t, dir, "a/b/c", "deep")
	_, err = r.Put("none/c", nil, PutOptions{})
	want(t, "no parent", err, fs.ErrNotExist)
	_, err = r.Put("dir", nil, PutOptions{})
	if Code(err) != "is-dir" {
		t.Errorf("over a directory: %v", err)
	}
	_, err = r.Put("big", make([]byte, 11), PutOptions{MaxBytes: 10})
	want(t, "too large", err, ErrTooLarge)
	holds(t, dir, "new", "two")
	if got := listed(t, dir); !slices.Equal(got, []string{"a", "dir", "f", "new"}) {
		t.Errorf("the root holds %q", got)
	}
}

func TestPutIfMatch(t *testing.T) {
	r, dir := openTree(t, Workspace())
	needsIdentity(t, r)
	first, err := r.Put("state", []byte("1"), PutOptions{})
	must(t, err)
	second, err := r.Put("state", []byte("22"), PutOptions{IfMatch: &first})
	must(t, err)
	if p := second.Published; p != identity.Swapped && p != identity.Checked {
		t.Errorf("published %v", p)
	}
	_, err = r.Put("state", []byte("333"), PutOptions{IfMatch: &first})
	want(t, "stale receipt", err, ErrChanged)
	holds(t, dir, "state", "22")
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f", "state"}) {
		t.Errorf("the root holds %q", got)
	}
}

func TestStage(t *testing.T) {
	r, dir := openTree(t, Workspace())
	s, err := r.Stage("out", PutOptions{})
	must(t, err)
	for i := range 100 {
		fmt.Fprintf(s, "line %d\n", i)
	}
	if _, err := os.Lstat(filepath.Join(dir, "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there before Commit: %v", err)
	}
	_, err = s.Commit()
	must(t, err)
	must(t, s.Close())
	if data, err := r.ReadFile("out"); err != nil || bytes.Count(data, []byte("\n")) != 100 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	s, err = r.Stage("never", PutOptions{})
	must(t, err)
	must(t, s.Abort())
	_, err = r.PutFrom(context.Background(), "never", io.MultiReader(strings.NewReader("x"), failing{}), PutOptions{})
	want(t, "PutFrom", err, io.ErrUnexpectedEOF)
	if got := listed(t, dir); !slices.Equal(got, []string{"dir", "f", "out"}) {
		t.Errorf("the root holds %q", got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestInPlace(t *testing.T) {
	r, dir := openTree(t, Workspace())
	must(t, r.WriteFile("f", []byte("in place"), 0o644))
	_, err := r.Append("f", []byte(", longer"), AppendOptions{})
	must(t, err)
	holds(t, dir, "f", "in place, longer")
	must(t, r.Truncate("f", 2))
	holds(t, dir, "f", "in")
	f, err := r.OpenView("f", os.O_RDWR|os.O_APPEND, 0)
	must(t, err)
	_, err = f.Write([]byte("k"))
	must(t, err)
	must(t, f.Close())
	holds(t, dir, "f", "ink")
	f, err = r.OpenView("g", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	_, err = f.WriteAt([]byte("tail"), 4)
	must(t, err)
	_, err = f.Write([]byte("head"))
	must(t, err)
	buf := make([]byte, 8)
	_, err = f.ReadAt(buf, 0)
	must(t, err)
	if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != 4 || string(buf) != "headtail" {
		t.Errorf("position %d, %v, %q", at, err, buf)
	}
	must(t, f.Sync())
	must(t, f.Close())
	want(t, "closed", f.Close(), fs.ErrClosed)
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	must(t, r.Chtimes("g", time.Time{}, when))
	must(t, r.Chmod("g", 0o400))
	st, err := r.Stat("g")
	if err != nil || !st.ModTime().Equal(when) || st.Mode()&0o200 != 0 {
		t.Errorf("%v, %v", st, err)
	}
	must(t, r.Chmod("g", 0o600))
	must(t, r.Remove("g"))
}
