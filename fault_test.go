package caproot

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
)

// faultSystem fails the n-th call that changes something.
type faultSystem struct {
	system
	mu   sync.Mutex
	left int
}

var errFault = syscall.EIO

func (f *faultSystem) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		return errFault
	}
	return nil
}

func (f *faultSystem) write(h handle, p []byte) (int, error) {
	if err := f.fault(); err != nil {
		return 0, err
	}
	return f.system.write(h, p)
}

func (f *faultSystem) stat(d handle, n string, full bool) (status, error) {
	if err := f.fault(); err != nil {
		return status{}, err
	}
	return f.system.stat(d, n, full)
}

func (f *faultSystem) rename(a handle, n string, b handle, m string, how renameHow) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.system.rename(a, n, b, m, how)
}

func (f *faultSystem) publish(h, d handle, n string) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.system.publish(h, d, n)
}

func (f *faultSystem) sync(h handle) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.system.sync(h)
}

func (f *faultSystem) unnamed(d handle, perm fs.FileMode) (handle, error) {
	if err := f.fault(); err != nil {
		return noHandle, err
	}
	return f.system.unnamed(d, perm)
}

// faulty is a root with the file f, whose n-th call fails.
func faulty(t *testing.T, n int) (r *Root, dir string, faults *faultSystem) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.WriteFile(dir+"/f", []byte("old"), 0o644))
	r, err := Open(dir, Workspace())
	must(t, err)
	faults = &faultSystem{system: r.sys, left: n}
	r.sys = faults
	return r, dir, faults
}

// Whichever call of a Put fails, the target is whole and nothing leaks.
func TestPutFaults(t *testing.T) {
	for n := 1; n <= 40; n++ {
		r, dir, faults := faulty(t, n)
		fds := openFDs(t)
		_, err := r.Put("f", []byte("new!"), PutOptions{Durability: DurabilityDir})
		if openFDs(t) != fds {
			t.Errorf("fault %d: descriptors leaked", n)
		}
		data, rerr := os.ReadFile(dir + "/f")
		must(t, rerr)
		if s := string(data); s != "old" && s != "new!" || s == "old" && err == nil {
			t.Errorf("fault %d: %q, %v", n, s, err)
		}
		if err != nil && !errors.Is(err, errFault) {
			t.Errorf("fault %d: %v hides the first error", n, err)
		}
		r.Close()
		if faults.left > 0 {
			if n < 5 {
				t.Errorf("a Put had only %d calls to fail", n)
			}
			return
		}
	}
	t.Error("40 faults and still not through")
}
