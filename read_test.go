package caproot

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestAppendFile(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, size := range []int{0, 1, 4095, bigRead - 2, bigRead - 1, bigRead, bigRead + 1, 3 << 20} {
			data := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
			must(t, os.WriteFile(base+"/root/f", data, 0o600))
			for _, room := range []int{0, 1, size, size + 1, size + 100} {
				dst := append(make([]byte, 0, 4+room), "dst:"...)
				got, err := r.AppendFile(dst, "f")
				must(t, err)
				if string(got) != "dst:"+string(data) {
					t.Errorf("size %d, room %d: %d bytes", size, room, len(got))
				}
				if room > size && &got[0] != &dst[0] {
					t.Errorf("size %d, room %d: a new buffer", size, room)
				}
			}
			got, err := r.AppendFile(nil, "f")
			must(t, err)
			whole, err := r.ReadFile("f")
			must(t, err)
			if !bytes.Equal(got, data) || !bytes.Equal(whole, data) || cap(whole) > size+size/8+16 {
				t.Errorf("size %d: %d and %d bytes, capacity %d", size, len(got), len(whole), cap(whole))
			}
		}
		dst := []byte("kept")
		for name, cause := range map[string]error{"no": fs.ErrNotExist, "dir": syscall.EISDIR, "../outside/secret": ErrEscape} {
			got, err := r.AppendFile(dst, name)
			want(t, name, err, cause)
			if string(got) != "kept" {
				t.Errorf("dst is %q after the error", got)
			}
		}
	})
}

// resize changes the file before each read of it.
type resizing struct {
	system
	resize func(n int)
	reads  int
}

func (s *resizing) read(h handle, p []byte) (int, error) {
	s.reads++
	s.resize(s.reads)
	return s.system.read(h, p)
}

// The size is only a hint: a file may grow or shrink while it is read.
func TestReadFileOfChangingSize(t *testing.T) {
	for _, size := range []int{0, 10, bigRead, 200_000} {
		for _, to := range []int{0, 1, size / 2, size + 1, 2*size + 100, 1 << 20} {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				path := base + "/root/f"
				long := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
				must(t, os.WriteFile(path, long[:size], 0o600))
				s := &resizing{system: r.sys, resize: func(n int) {
					if n == 1 {
						must(t, os.WriteFile(path, long[:to], 0o600))
					}
				}}
				r.sys = s
				for _, dst := range [][]byte{nil, make([]byte, 0, size+1), []byte("dst")} {
					s.reads = 0
					must(t, os.WriteFile(path, long[:size], 0o600))
					got, err := r.AppendFile(dst, "f")
					must(t, err)
					if got = got[len(dst):]; !bytes.HasPrefix(long, got) || len(got) < min(size, to) || len(got) > to {
						t.Errorf("from %d to %d: %d bytes", size, to, len(got))
					}
					if n := len(got); n != to && n != size {
						t.Errorf("from %d to %d: %d bytes are neither", size, to, n)
					}
				}
			})
		}
	}
}

// A file that grows for ever meets the limit, if there is one.
func TestReadFileOfGrowingFile(t *testing.T) {
	p := Workspace()
	p.MaxReadBytes = 100_000
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		path := base + "/root/f"
		must(t, os.WriteFile(path, make([]byte, 1000), 0o600))
		r.sys = &resizing{system: r.sys, resize: func(n int) {
			st, err := os.Stat(path)
			must(t, err)
			must(t, os.Truncate(path, st.Size()+5000))
		}}
		dst := []byte("kept")
		got, err := r.AppendFile(dst, "f")
		want(t, "AppendFile", err, ErrTooLarge)
		if string(got) != "kept" {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestReadLimit(t *testing.T) {
	p := Workspace()
	p.MaxReadBytes = 7
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, verbs(r)["ReadFile"]("f")) // 7 bytes
		must(t, os.WriteFile(base+"/root/f", []byte("8 bytes!"), 0o600))
		for name, read := range map[string]func() error{
			"ReadFile":   func() error { _, err := r.ReadFile("f"); return err },
			"AppendFile": func() error { _, err := r.AppendFile(nil, "f"); return err },
			"digest":     func() error { _, err := r.Receipt("f", WithDigest); return err },
		} {
			want(t, name, read(), ErrTooLarge)
		}
	})
}

// case 40: files of procfs have size 0 and content; with a limit below it the
// answer is ErrTooLarge, not a prefix.
func TestReadFileOfProc(t *testing.T) {
	for _, limit := range []int64{NoLimit, 10} {
		p := Compat()
		p.MaxReadBytes = limit
		r, err := Open("/proc/self", p)
		if err != nil {
			t.Skipf("no /proc: %v", err)
		}
		defer r.Close()
		for name, begin := range map[string]string{"status": "Name:", "maps": "", "stat": ""} {
			data, err := r.ReadFile(name)
			if limit == 10 {
				want(t, name, err, ErrTooLarge)
				continue
			}
			must(t, err)
			plain, err := os.ReadFile("/proc/self/" + name)
			must(t, err)
			if !strings.HasPrefix(string(data), begin) || len(data) < len(plain)/2 || len(data) < 20 {
				t.Errorf("%s: %d bytes, os has %d", name, len(data), len(plain))
			}
		}
	}
}

// A size is a claim: a sparse file, or a file system that lies, gets no buffer
// of that size before there is content.
func TestReadFileOfClaimedSize(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, claim := range []int64{math.MaxInt64, 1 << 62, 1 << 45, -1} {
			s := &claiming{r.sys, claim}
			r.sys = s
			data, err := r.ReadFile("f")
			must(t, err)
			if string(data) != "content" {
				t.Errorf("claim %d: %q", claim, data)
			}
			r.sys = s.system
		}
	})
}

type claiming struct {
	system
	size int64
}

func (s *claiming) stat(d handle, name string, full bool) (status, error) {
	st, err := s.system.stat(d, name, full)
	if st.isRegular() {
		st.size = s.size
	}
	return st, err
}

// case 28: a second name that comes while a file is read is noticed at its end.
func TestReadFileStillHasOneName(t *testing.T) {
	eachResolver(t, Extract(), func(t *testing.T, r *Root, base string) {
		r.sys = &resizing{system: r.sys, resize: func(n int) {
			if n == 1 {
				must(t, os.Link(base+"/root/f", base+"/root/second"))
			}
		}}
		got, err := r.AppendFile([]byte("kept"), "f")
		want(t, "AppendFile", err, ErrHardlink)
		if string(got) != "kept" {
			t.Errorf("%q", got)
		}
	})
}
