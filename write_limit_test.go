package caproot

import (
	"io"
	"os"
	"testing"
)

// readingSystem reads from the file before each write to it: the window between
// the look at the offset and the write, in which a Read of another goroutine
// moves the offset that both share.
type readingSystem struct {
	system
	moves func()
}

func (s readingSystem) write(h handle, p []byte) (int, error) {
	s.moves()
	return s.system.write(h, p)
}

func (s readingSystem) writeAt(h handle, p []byte, offset int64) (int, error) {
	s.moves()
	return s.system.writeAt(h, p, offset)
}

// A Read between the look and the write of one File takes the write neither beyond
// the limit nor beyond what its budget paid for.
func TestReadMovesNoWrite(t *testing.T) {
	policy := Workspace()
	policy.MaxWriteBytes = 100
	eachResolver(t, policy, func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/full", make([]byte, 100), 0o600))
		sub, err := r.Grant(".", Grant{Policy: policy, Budget: &Budget{Bytes: 150, Files: 1}})
		must(t, err)
		defer sub.Close()
		for _, r := range []*Root{r, sub} {
			f, err := r.OpenView("full", os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			real := r.sys
			r.sys = readingSystem{real, func() { f.Read(make([]byte, 1000)) }}
			n, err := f.Write(make([]byte, 60))
			must(t, err)
			at, err := f.Seek(0, io.SeekCurrent)
			must(t, err)
			r.sys = real
			st, err := os.Stat(base + "/root/full")
			must(t, err)
			if n != 60 || at != 60 || st.Size() != 100 {
				t.Errorf("wrote %d bytes, offset %d, size %d", n, at, st.Size())
			}
		}
	})
}
