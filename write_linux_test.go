package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenFlags(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, flag := range []int{os.O_WRONLY | os.O_RDWR, syscall.O_NOFOLLOW, syscall.O_DIRECT, unix.O_PATH, unix.O_TMPFILE &^ unix.O_DIRECTORY, 1 << 30} {
			_, err := r.OpenView("f", flag, 0)
			want(t, fmt.Sprintf("OpenView with %#x", flag), err, fs.ErrInvalid)
			_, err = r.OpenFile("f", flag, 0)
			want(t, fmt.Sprintf("OpenFile with %#x", flag), err, fs.ErrInvalid)
		}
		_, err := r.OpenView("f", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		want(t, "O_EXCL", err, fs.ErrExist)
		_, err = r.OpenView("lk", os.O_RDWR, 0)
		want(t, "a link for writing", err, ErrSymlink)
		_, err = r.OpenView("new", os.O_RDWR|os.O_CREATE, fs.ModeSetuid|0o755)
		want(t, "setuid", err, ErrPolicy)
		f, err := r.OpenView("f", os.O_RDWR|os.O_TRUNC, 0)
		must(t, err)
		must(t, f.Close())
		if got := content(t, base, "f"); got != "" {
			t.Errorf("O_TRUNC left %q", got)
		}
		if _, err := os.Lstat(base + "/root/new"); err == nil {
			t.Error("a refused open made the file")
		}
	})
	for lacks, c := range map[Rights]struct {
		name string
		flag int
	}{
		Modify:          {"f", os.O_WRONLY},
		Create:          {"new", os.O_WRONLY | os.O_CREATE},
		Create | Modify: {"f", os.O_WRONLY | os.O_CREATE},
		Read:            {"f", os.O_RDWR},
		Read | List:     {"f", os.O_RDONLY},
	} {
		p := Workspace()
		p.Rights &^= lacks
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			_, err := r.OpenView(c.name, c.flag, 0o600)
			want(t, fmt.Sprintf("without %b: %s", lacks, c.name), err, ErrPolicy)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
				t.Errorf("%v looks like absence", err)
			}
			untouched(t, base)
		})
	}
	// A right that is missing does not stand in the way of what needs it not.
	p := Workspace()
	p.Rights &^= Modify
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, r.WriteFile("new", []byte("x"), 0o600))
		want(t, "WriteFile again", r.WriteFile("new", nil, 0o600), ErrPolicy)
		_, err := r.Append("new", nil, AppendOptions{})
		want(t, "Append", err, ErrPolicy)
		if got := content(t, base, "new"); got != "x" {
			t.Errorf("content %q", got)
		}
	})
	p = Workspace()
	p.Rights &^= Create
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, r.WriteFile("f", []byte("x"), 0o600))
		_, err := r.Append("f", []byte("y"), AppendOptions{})
		must(t, err)
		_, err = r.Append("new", nil, AppendOptions{})
		want(t, "Append", err, ErrPolicy)
		if got := content(t, base, "f"); got != "xy" {
			t.Errorf("content %q", got)
		}
	})
}

func TestAppend(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		_, err := r.Append("new", []byte("x"), AppendOptions{Existing: true})
		want(t, "Existing", err, fs.ErrNotExist)
		for i := range 3 {
			receipt, err := r.Append("in/new", []byte("ab"), AppendOptions{})
			must(t, err)
			if receipt.Path != "dir/new" || receipt.Size != int64(2*i+2) || receipt.Op != "append" {
				t.Errorf("%+v", receipt)
			}
		}
		wantMode(t, base, "dir/new", 0o600)
		for name, cause := range map[string]error{"lk": ErrSymlink, "dir": syscall.EISDIR, "f/": syscall.EISDIR, "no/x": fs.ErrNotExist, "out/x": ErrEscape} {
			_, err := r.Append(name, []byte("x"), AppendOptions{})
			want(t, name, err, cause)
		}
		_, err = r.Append("new", nil, AppendOptions{Mode: 0o666})
		want(t, "mode", err, ErrPolicy)
		// Many appenders lose nothing, and one of them makes the file.
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 50 {
					if _, err := r.Append("new", []byte("line\n"), AppendOptions{Mode: 0o644}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := content(t, base, "new"); got != strings.Repeat("line\n", 800) {
			t.Errorf("%d bytes", len(got))
		}
		wantMode(t, base, "new", 0o644)
		// An existing file keeps its mode.
		_, err = r.Append("f", []byte("+"), AppendOptions{Mode: 0o600})
		must(t, err)
		wantMode(t, base, "f", 0o644)
	})
}
