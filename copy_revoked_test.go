package caproot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// revokedReads counts what is read after the revocation.
type revokedReads struct {
	system
	revoked atomic.Bool
	late    atomic.Int32
}

func (s *revokedReads) readAt(h handle, p []byte, offset int64) (int, error) {
	if s.revoked.Load() {
		s.late.Add(1)
	}
	return s.system.readAt(h, p, offset)
}

// A source that is revoked while it is copied: the copy ends with the next chunk,
// nothing is published, and Wait does not return before.
func TestCopyOfRevokedSource(t *testing.T) {
	const files = 4
	for what, do := range map[string]func(r, src *Root, o CopyOptions) error{
		"CopyIn": func(r, src *Root, o CopyOptions) error {
			return errOf(r.CopyIn(context.Background(), "to", Source{Root: src, Name: "0"}, o))
		},
		"CopyTree":              copyTreeBy(1, 0),
		"CopyTree of one":       copyTreeBy(1, files-1),
		"CopyTree by 4 workers": copyTreeBy(files, 0),
	} {
		eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
			for n := range files {
				must(t, os.WriteFile(fmt.Sprint(base, "/root/dir/", n), nil, 0o600))
				must(t, os.Truncate(fmt.Sprint(base, "/root/dir/", n), 64<<20))
			}
			must(t, os.Remove(base+"/root/dir/file"))
			src, err := r.Grant("dir", Grant{Policy: Compat()})
			must(t, err)
			defer src.Close()
			reads := &revokedReads{system: src.sys}
			src.sys = reads
			var once sync.Once
			o := CopyOptions{PutOptions: PutOptions{Digest: true}, Clone: CloneNever, Progress: func(done, total int64) {
				once.Do(func() {
					src.Revoke()
					reads.revoked.Store(true)
					soon, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					defer cancel()
					want(t, what+": Wait in Progress", src.Wait(soon), context.DeadlineExceeded)
				})
			}}
			want(t, what, do(r, src, o), ErrRevoked)
			if late := reads.late.Load(); late > 2*files {
				t.Errorf("%s: %d chunks read after the revocation", what, late)
			}
			if made, _ := filepath.Glob(base + "/root/to/*"); len(made) > 0 {
				t.Errorf("%s made %v", what, made)
			}
			if _, err := os.Stat(base + "/root/to"); what == "CopyIn" && err == nil {
				t.Errorf("%s published", what)
			}
			must(t, src.Wait(context.Background()))
		})
	}
}

func copyTreeBy(workers, leftOut int) func(r, src *Root, o CopyOptions) error {
	return func(r, src *Root, o CopyOptions) error {
		for n := range leftOut {
			if err := r.Remove(fmt.Sprint("dir/", n)); err != nil {
				return err
			}
		}
		return errOf(r.CopyTree(context.Background(), "to", src, ".", TreeCopyOptions{File: o, Workers: workers}))
	}
}

// A revocation by the host's own Before of the publication is one before it.
func TestRevokedBeforePublication(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		src, err := r.Grant("dir", Grant{Policy: Compat()})
		must(t, err)
		defer src.Close()
		to, err := r.Grant(".", Grant{Policy: Compat(), Before: func(m Mutation) error {
			if m.Step == StepPublish {
				src.Revoke()
			}
			return nil
		}})
		must(t, err)
		defer to.Close()
		want(t, "CopyTree", errOf(to.CopyTree(context.Background(), "to", src, ".", TreeCopyOptions{})), ErrRevoked)
		if made, _ := filepath.Glob(base + "/root/to/*"); len(made) > 0 {
			t.Errorf("made %v", made)
		}
	})
}
