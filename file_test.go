package caproot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
)

func TestFileReads(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		f, err := r.OpenView(linked(t)+"/file", os.O_RDONLY, 0)
		must(t, err)
		defer f.Close()
		must(t, iotest.TestReader(f, []byte("file")))
		i, err := f.Stat()
		must(t, err)
		if f.Name() != linked(t)+"/file" || i.Name() != "file" || i.Size() != 4 || i.Mode() != kept(0o644, false) || i.IsDir() {
			t.Errorf("%s: %v", f.Name(), i)
		}
		buf := make([]byte, 3)
		n, err := f.ReadAt(buf, 2)
		if n != 2 || err != io.EOF || string(buf[:n]) != "le" {
			t.Errorf("ReadAt: %q, %v", buf[:n], err)
		}
		_, err = f.ReadAt(buf, -1)
		want(t, "ReadAt", err, fs.ErrInvalid)
		n, err = f.ReadAt(nil, 100)
		if n != 0 || err != nil {
			t.Errorf("ReadAt of nothing: %d, %v", n, err)
		}
		_, err = f.Write([]byte("x"))
		want(t, "Write", err, errNotForWriting)
		_, err = f.WriteAt([]byte("x"), 0)
		want(t, "WriteAt", err, errNotForWriting)
		want(t, "Truncate", f.Truncate(0), syscall.EINVAL)
		_, err = f.ReadDir(-1)
		want(t, "ReadDir", err, syscall.ENOTDIR)
	})
}

func TestFileWrites(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		f, err := r.OpenView("w", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
		must(t, err)
		defer f.Close()
		n, err := f.Write([]byte("0123456789"))
		if n != 10 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		n, err = f.WriteAt([]byte("ab"), 3)
		if n != 2 || err != nil {
			t.Errorf("WriteAt: %d, %v", n, err)
		}
		at, err := f.Seek(-1, io.SeekEnd)
		if at != 9 || err != nil {
			t.Errorf("Seek: %d, %v", at, err)
		}
		_, err = f.Write([]byte("XY"))
		must(t, err)
		must(t, f.Sync())
		if got := content(t, base, "w"); got != "012ab5678XY" {
			t.Errorf("content %q", got)
		}
		must(t, f.Truncate(3))
		if got := content(t, base, "w"); got != "012" {
			t.Errorf("content %q", got)
		}
		_, err = f.WriteAt(nil, -1)
		want(t, "WriteAt", err, fs.ErrInvalid)
		_, err = f.Seek(-1, io.SeekStart)
		want(t, "Seek", err, syscall.EINVAL)
		must(t, f.Close())
		a, err := r.OpenView("w", os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer a.Close()
		_, err = a.Write([]byte("end"))
		must(t, err)
		_, err = a.WriteAt([]byte("x"), 0)
		want(t, "WriteAt of an appending file", err, fs.ErrInvalid)
		if got := content(t, base, "w"); got != "012end" {
			t.Errorf("content %q", got)
		}
	})
}

// Writes tell how much they wrote.
func TestFileWriteFaults(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s := hook(r, nil)
		f, err := r.OpenView("f", os.O_WRONLY, 0)
		must(t, err)
		defer f.Close()
		s.before = answers(map[string]error{"write": shortWrite{3, syscall.ENOSPC}})
		n, err := f.Write([]byte("12345"))
		want(t, "Write", err, syscall.ENOSPC)
		if n != 3 {
			t.Errorf("wrote %d", n)
		}
		s.before = answers(map[string]error{"write": shortWrite{0, nil}})
		n, err = f.Write([]byte("12345"))
		want(t, "Write", err, syscall.EIO)
		if n != 0 {
			t.Errorf("wrote %d", n)
		}
		s.before = answers(map[string]error{"write": shortWrite{2, syscall.ENOSPC}})
		_, err = r.Append("f", []byte("12345"), AppendOptions{})
		want(t, "Append", err, syscall.ENOSPC)
		if Code(err) != "no-space" || !strings.Contains(err.Error(), "2 of 5 bytes") {
			t.Errorf("Append does not tell how much: %v", err)
		}
	})
}

// The limit is on the size that a write leads to, not on the write alone.
func TestFileWriteLimit(t *testing.T) {
	p := Workspace()
	p.MaxWriteBytes = 10
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		f, err := r.OpenView("w", os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		defer f.Close()
		a, err := r.OpenView("w", os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer a.Close()
		steps := []struct {
			what string
			do   func() error
			fits bool
		}{
			{"Write 6", func() error { _, err := f.Write(make([]byte, 6)); return err }, true},
			{"Write 5 more", func() error { _, err := f.Write(make([]byte, 5)); return err }, false},
			{"append 4", func() error { _, err := a.Write(make([]byte, 4)); return err }, true},
			{"append 1 more", func() error { _, err := a.Write(make([]byte, 1)); return err }, false},
			{"WriteAt the end", func() error { _, err := f.WriteAt(make([]byte, 2), 9); return err }, false},
			{"WriteAt beyond", func() error { _, err := f.WriteAt(make([]byte, 1), 1<<62); return err }, false},
			{"Truncate to 11", func() error { return f.Truncate(11) }, false},
			{"Root.Truncate to 11", func() error { return r.Truncate("w", 11) }, false},
			{"WriteFile of 11", func() error { return r.WriteFile("w", make([]byte, 11), 0) }, false},
			{"Append of 1", func() error { _, err := r.Append("w", make([]byte, 1), AppendOptions{}); return err }, false},
			{"Append of 11", func() error { _, err := r.Append("new", make([]byte, 11), AppendOptions{}); return err }, false},
		}
		for _, s := range steps {
			if err := s.do(); (err == nil) != s.fits || !s.fits && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", s.what, err)
			}
		}
		if got := content(t, base, "w"); len(got) != 10 {
			t.Errorf("%d bytes", len(got))
		}
		if _, err := os.Lstat(base + "/root/new"); err == nil {
			t.Error("a refused Append made the file")
		}
	})
	// Two writers of one File do not both find the last bytes free.
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		f, err := r.OpenView("w", os.O_WRONLY|os.O_CREATE, 0o600)
		must(t, err)
		defer f.Close()
		second := make(chan error, 1)
		hook(r, once("write", func() {
			go func() { _, err := f.Write(make([]byte, 6)); second <- err }()
			for range 10_000 { // time enough for the second to go wrong
				runtime.Gosched()
			}
		}))
		_, err = f.Write(make([]byte, 6))
		must(t, err)
		want(t, "the second writer", <-second, ErrTooLarge)
		if got := content(t, base, "w"); len(got) != 6 {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestFileReadDir(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/many", 0o755))
		var names []string
		for i := range 1500 { // more than one buffer of the kernel
			name := fmt.Sprintf("entry-with-a-long-name-%04d", i)
			names = append(names, name)
			must(t, os.WriteFile(base+"/root/many/"+name, nil, 0o600))
		}
		f, err := r.OpenView("many", os.O_RDONLY, 0)
		must(t, err)
		defer f.Close()
		for range 2 {
			var got []string
			for {
				part, err := f.ReadDir(7)
				for _, e := range part {
					got = append(got, e.Name())
				}
				if err == io.EOF {
					break
				}
				must(t, err)
				if len(part) == 0 || len(part) > 7 {
					t.Fatalf("%d entries", len(part))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, names) {
				t.Errorf("%d entries of %d", len(got), len(names))
			}
			rest, err := f.ReadDir(-1)
			if len(rest) != 0 || rest == nil || err != nil {
				t.Errorf("at the end: %d, %v", len(rest), err)
			}
			_, err = f.Seek(0, io.SeekStart)
			must(t, err)
		}
		_, err = f.Read(make([]byte, 1))
		want(t, "Read", err, syscall.EISDIR)
		_, err = r.OpenView("many", os.O_RDWR, 0)
		want(t, "open for writing", err, syscall.EISDIR)
	})
	p := Workspace()
	p.Rights &^= List
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		_, err := r.OpenView("dir", os.O_RDONLY, 0)
		want(t, "OpenView without List", err, ErrPolicy)
	})
}

// A file system that does not tell types in its listing is asked for each, and
// what vanished meanwhile is left out. case 171.
func TestReadDirWithoutTypes(t *testing.T) {
	needsLinks(t)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/gone", nil, 0o600))
		r.sys = typeless{r.sys, base + "/root/gone"}
		entries, err := r.ReadDir(".")
		must(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprint(e))
		}
		expect := []string{"L abs", "d dir/", "- f", "L in", "L lk", "L out"}
		if !slices.Equal(got, expect) {
			t.Errorf("entries %q", got)
		}
	})
}

type typeless struct {
	system
	gone string
}

func (u typeless) list(dir handle, scratch []byte) ([]direntry, error) {
	entries, err := u.system.list(dir, scratch)
	for i := range entries {
		entries[i].typed, entries[i].mode = false, 0
	}
	os.Remove(u.gone)
	return entries, err
}

// After Close of the file, or of its root, every method answers fs.ErrClosed.
func TestFileAfterClose(t *testing.T) {
	for name, end := range map[string]func(*Root, *File) error{
		"file": func(_ *Root, f *File) error { return f.Close() },
		"root": func(r *Root, _ *File) error { return r.Close() },
	} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			sub, err := r.OpenRoot(".")
			must(t, err)
			f, err := sub.OpenView("f", os.O_RDWR, 0)
			must(t, err)
			must(t, end(sub, f))
			buf := make([]byte, 1)
			for method, call := range map[string]func() error{
				"Read":     func() error { _, err := f.Read(buf); return err },
				"ReadAt":   func() error { _, err := f.ReadAt(buf, 0); return err },
				"Write":    func() error { _, err := f.Write(buf); return err },
				"WriteAt":  func() error { _, err := f.WriteAt(buf, 0); return err },
				"Seek":     func() error { _, err := f.Seek(0, 0); return err },
				"Stat":     func() error { _, err := f.Stat(); return err },
				"Truncate": func() error { return f.Truncate(0) },
				"Sync":     func() error { return f.Sync() },
				"ReadDir":  func() error { _, err := f.ReadDir(-1); return err },
			} {
				err := call()
				want(t, name+" closed, "+method, err, fs.ErrClosed)
				var e *fs.PathError
				if !errors.As(err, &e) || e.Path != "f" || Code(err) != "closed" {
					t.Errorf("%s: %#v", method, err)
				}
			}
			if name == "file" {
				want(t, "second Close", f.Close(), fs.ErrClosed)
			} else {
				must(t, f.Close()) // gives the descriptor back all the same
			}
			must(t, sub.Close())
			must(t, sub.Close())
		})
	}
}

// Close waits for a read in flight, so that the descriptor's number cannot be
// another file's while the read still uses it.
func TestFileCloseWaits(t *testing.T) {
	p := Workspace()
	p.Special = SpecialAllow
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		mkfifo(t, base+"/root/fifo")
		peer, err := os.OpenFile(base+"/root/fifo", os.O_RDWR, 0)
		must(t, err)
		defer peer.Close()
		s := &resizing{system: r.sys}
		reading := make(chan struct{})
		s.resize = func(int) { close(reading) }
		r.sys = s
		f, err := r.OpenView("fifo", os.O_RDONLY, 0)
		must(t, err)
		var got string
		var wg sync.WaitGroup
		wg.Go(func() {
			buf := make([]byte, 8)
			n, err := f.Read(buf)
			got = fmt.Sprint(string(buf[:n]), err)
		})
		<-reading
		closed := make(chan error)
		go func() { closed <- f.Close() }()
		for { // until Close has begun
			if _, err := f.Stat(); errors.Is(err, fs.ErrClosed) {
				break
			}
		}
		select {
		case err := <-closed:
			t.Errorf("Close did not wait: %v", err)
		default:
		}
		_, err = peer.WriteString("last")
		must(t, err)
		must(t, <-closed)
		wg.Wait()
		if got != "last<nil>" {
			t.Errorf("the read in flight gave %s", got)
		}
		must(t, peer.Close())
	})
}
