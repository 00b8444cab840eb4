package caproot

import (
	"errors"
	"io"
	"os"
	"sync"
	"testing"
)

// A hole costs what a file grows by.
func TestBudgetOfHoles(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Budget: &Budget{100, NoLimit}}, func(t *testing.T, sub *Root, base string) {
		f, err := sub.OpenView("h", os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		defer f.Close()
		a, err := sub.OpenView("h", os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer a.Close()
		seekWrite := func(at int64, n int) error {
			_, err := f.Seek(at, io.SeekStart)
			return errors.Join(err, errOf(f.Write(make([]byte, n))))
		}
		for _, s := range []struct {
			what  string
			do    func() error
			costs int64
			err   error
		}{
			{"WriteAt beyond the end", func() error { return errOf(f.WriteAt([]byte("x"), 9)) }, 10, nil},
			{"WriteAt inside", func() error { return errOf(f.WriteAt([]byte("xx"), 0)) }, 2, nil},
			{"Write beyond the end", func() error { return seekWrite(15, 5) }, 10, nil},
			{"Write at the end", func() error { return seekWrite(20, 3) }, 3, nil},
			{"Write inside", func() error { return seekWrite(0, 3) }, 3, nil},
			{"append after a seek", func() error {
				_, err := a.Seek(1000, io.SeekStart)
				return errors.Join(err, errOf(a.Write([]byte("xx"))))
			}, 2, nil},
			{"WriteAt of nothing", func() error { return errOf(f.WriteAt(nil, 1<<40)) }, 0, nil},
			{"Write of nothing", func() error { return seekWrite(1<<40, 0) }, 0, nil},
			{"WriteAt too far", func() error { return errOf(f.WriteAt([]byte("x"), 1000)) }, 0, ErrTooLarge},
			{"Write too far", func() error { return seekWrite(1000, 1) }, 0, ErrTooLarge},
			{"WriteAt at the end of counting", func() error { return errOf(f.WriteAt([]byte("x"), NoLimit-1)) }, 0, ErrTooLarge},
			{"Truncate", func() error { return f.Truncate(30) }, 5, nil},
		} {
			before := sub.Spent().Bytes
			if err := s.do(); !errors.Is(err, s.err) {
				t.Errorf("%s: %v", s.what, err)
			}
			if got := sub.Spent().Bytes - before; got != s.costs {
				t.Errorf("%s costs %d bytes, want %d", s.what, got, s.costs)
			}
		}
	})
}

// However parallel writes find the end of the file, it never grows by more than
// was spent.
func TestBudgetOfHolesInParallel(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Budget: &Budget{1 << 20, NoLimit}}, func(t *testing.T, sub *Root, base string) {
		var writers sync.WaitGroup
		for n := range 4 {
			f, err := sub.OpenView("h", os.O_RDWR|os.O_CREATE, 0o600)
			must(t, err)
			defer f.Close()
			writers.Go(func() {
				for i := range int64(200) {
					if _, err := f.WriteAt([]byte("x"), i*31+int64(n)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		if size, spent := len(content(t, base, "h")), sub.Spent().Bytes; int64(size) > spent {
			t.Errorf("a file of %d bytes for %d", size, spent)
		}
	})
}
