package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

var errSuperseded = errors.New("superseded")

// countingFence refuses from the passage after left on; it must not be passed
// within a passage.
type countingFence struct {
	t      *testing.T
	left   int
	passed int
	inside bool
	err    error
}

func (f *countingFence) Enter() (func(), error) {
	if f.inside {
		f.t.Error("the fence was entered within a passage")
	}
	if f.left == 0 {
		return nil, f.err
	}
	f.left--
	f.passed++
	f.inside = true
	return func() { f.inside = false }, nil
}

// fencedVerbs change something, each in a few passages.
var fencedVerbs = map[string]func(r *Root) error{
	"Put new":     func(r *Root) error { _, err := r.Put("new", []byte("x"), PutOptions{}); return err },
	"Put over":    func(r *Root) error { _, err := r.Put("f", []byte("x"), PutOptions{}); return err },
	"Put parents": func(r *Root) error { _, err := r.Put("p/q", []byte("x"), PutOptions{Parents: true}); return err },
	"Put volatile": func(r *Root) error {
		_, err := r.Put("f", []byte("x"), PutOptions{Durability: DurabilityVolatile})
		return err
	},
	"Put IfMatch": func(r *Root) error {
		was, err := r.Receipt("f")
		if err == nil {
			_, err = r.Put("f", []byte("x"), PutOptions{IfMatch: &was})
		}
		return err
	},
	"PutFrom": func(r *Root) error {
		_, err := r.PutFrom(context.Background(), "new", strings.NewReader("x"), PutOptions{})
		return err
	},
	"Batch": func(r *Root) error {
		b := r.Batch(BatchOptions{})
		err := b.Put("new", []byte("x"), PutOptions{})
		if err == nil {
			_, err = b.Commit(context.Background())
		}
		return err
	},
	"Append":     func(r *Root) error { _, err := r.Append("f", []byte("x"), AppendOptions{}); return err },
	"WriteFile":  func(r *Root) error { return r.WriteFile("f", []byte("x"), 0o600) },
	"Truncate":   func(r *Root) error { return r.Truncate("f", 1) },
	"Mkdir":      func(r *Root) error { return r.Mkdir("d", 0o700) },
	"MkdirAll":   func(r *Root) error { return r.MkdirAll("d/e", 0o700) },
	"Remove":     func(r *Root) error { return r.Remove("f") },
	"RemoveAll":  func(r *Root) error { return r.RemoveAll("dir") },
	"RemoveTree": func(r *Root) error { _, err := r.RemoveTree(context.Background(), "dir", TreeLimits{}); return err },
	"Rename":     func(r *Root) error { return r.Rename("f", "g") },
	"Move":       func(r *Root) error { _, err := r.Move("f", "g", MoveOptions{}); return err },
	"Link":       func(r *Root) error { return r.Link("f", "g") },
	"Symlink":    func(r *Root) error { return r.Symlink("f", "g") },
	"Chmod":      func(r *Root) error { return r.Chmod("f", 0o600) },
	"Chtimes":    func(r *Root) error { return r.Chtimes("f", time.Unix(1, 0), time.Unix(1, 0)) },
	"CreateTemp": func(r *Root) error {
		f, _, err := r.CreateTemp(".", "x*")
		if err == nil {
			err = f.Close()
		}
		return err
	},
	"CopyIn": func(r *Root) error {
		_, err := r.CopyIn(context.Background(), "new", Source{Root: r, Name: "f"}, CopyOptions{})
		return err
	},
	"Grant": func(r *Root) error {
		sub, err := r.Grant("dir", Grant{Policy: Compat(), Deny: []string{"x"}, Before: func(Mutation) error { return nil }})
		if err == nil {
			err = errors.Join(sub.WriteFile("file", []byte("x"), 0o600), sub.Close())
		}
		return err
	},
	"OpenRoot": func(r *Root) error {
		sub, err := r.OpenRoot("dir")
		if err == nil {
			err = errors.Join(sub.Remove("file"), sub.Close())
		}
		return err
	},
	"File": func(r *Root) error {
		f, err := r.OpenView("f", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte("x"))
		if err == nil {
			_, err = f.WriteAt([]byte("x"), 1)
		}
		if err == nil {
			err = f.Truncate(0)
		}
		return errors.Join(err, f.Close())
	},
}

// Every change passes the fence, whichever of its passages is the one that is
// refused, and leaves no stage behind. Case 154: checked at the write itself.
func TestFencedVerbs(t *testing.T) {
	for name, run := range fencedVerbs {
		t.Run(name, func(t *testing.T) {
			if name == "Symlink" {
				needsLinks(t)
			}
			for n := 0; ; n++ {
				if !fencedAt(t, n, run) {
					break
				}
				if n > 100 {
					t.Fatal("never done")
				}
			}
		})
	}
}

// fencedAt runs the verb with n passages, and tells whether it wanted more.
func fencedAt(t *testing.T, n int, run func(r *Root) error) (refused bool) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		fence := &countingFence{t: t, left: n, err: errSuperseded}
		fenced, err := r.Fenced(fence)
		must(t, err)
		defer fenced.Close()
		before := seal(t, base+"/root")
		if err = run(fenced); err == nil {
			if n == 0 {
				t.Error("not fenced")
			}
			return
		}
		refused = true
		want(t, "fenced", err, errSuperseded)
		after := seal(t, base+"/root")
		if n == 0 && after != before {
			t.Errorf("changed:\n%s\nwas\n%s", after, before)
		}
		if strings.Contains(after, stagePrefix) || strings.Contains(after, markedPrefix) {
			t.Errorf("a stage is left:\n%s", after)
		}
	})
	return refused
}

// What only reads is not fenced.
func TestFencedReads(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		fenced, err := r.Fenced(&countingFence{t: t, err: errSuperseded})
		must(t, err)
		defer fenced.Close()
		if data, err := fenced.ReadFile("f"); err != nil || string(data) != "content" {
			t.Errorf("%q, %v", data, err)
		}
		_, err = fenced.ReadDir(".")
		must(t, err)
		_, err = fenced.Receipt("f")
		must(t, err)
	})
}

// A refusal never looks like absence, whatever the fence says.
func TestFenceRefusalIsNoAbsence(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, cause := range []error{fs.ErrNotExist, fs.ErrExist, os.ErrNotExist, &fs.PathError{Op: "open", Err: syscall.ENOENT}} {
			fenced, err := r.Fenced(&countingFence{t: t, err: cause})
			must(t, err)
			_, err = fenced.Put("new", nil, PutOptions{})
			if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOENT) {
				t.Errorf("%v", err)
			}
			fenced.Close()
		}
	})
}
