package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-multierror"
)

// cases 49, 178: what cannot be removed is told by its name, everything else is
// removed, and of very many failures the first hundred are told.
func TestRemoveAllCollectsFailures(t *testing.T) {
	for _, stuck := range []int{1, 3, 150} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			tree := base + "/root/tree"
			must(t, os.MkdirAll(tree+"/sub/empty", 0o755))
			must(t, os.MkdirAll(tree+"/other", 0o755))
			for i := range 200 {
				must(t, os.WriteFile(fmt.Sprintf("%s/sub/e%03d", tree, i), nil, 0o600))
			}
			s := hook(r, func(event string) error {
				var i int
				if n, _ := fmt.Sscanf(event, "remove e%03d", &i); n == 1 && i < stuck {
					return syscall.EACCES
				}
				return nil
			})
			err := r.RemoveAll("tree")
			want(t, "RemoveAll", err, fs.ErrPermission)
			var e *fs.PathError
			if !errors.As(err, &e) || e.Op != "removeall" || e.Path != "tree" || Code(err) != "permission" {
				t.Errorf("%#v, code %q", err, Code(err))
			}
			var all *multierror.Error
			if !errors.As(err, &all) || len(all.Errors) != min(stuck, maxReported) {
				t.Fatalf("%d stuck: %v", stuck, err)
			}
			for _, one := range all.Errors {
				if !strings.Contains(one.Error(), "/e") || !errors.Is(one, syscall.EACCES) {
					t.Errorf("%v", one)
				}
			}
			left, err := os.ReadDir(tree + "/sub")
			must(t, err)
			rest, err := os.ReadDir(tree)
			must(t, err)
			if len(left) != stuck || len(rest) != 1 {
				t.Errorf("%d stuck, left %d, beside it %v", stuck, len(left), rest)
			}
			r.sys = s.system
			must(t, r.RemoveAll("tree"))
		})
	}
}

// A cleanup that fails after a failure is told beside it and does not hide it.
func TestFailedCleanupIsTold(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		hook(r, answers(map[string]error{"unnamed": syscall.EOPNOTSUPP, "write": syscall.ENOSPC, "remove STAGE": syscall.EIO}))
		_, err := r.Put("f", []byte("x"), PutOptions{})
		for _, part := range []error{syscall.ENOSPC, syscall.EIO} {
			want(t, "Put", err, part)
		}
		var e *fs.PathError
		if !errors.As(err, &e) || e.Path != "f" || Code(err) != "no-space" {
			t.Errorf("%#v, code %q", err, Code(err))
		}
		must(t, os.Remove(stageIn(t, base)))
		untouched(t, base)
		// Abort has nothing else to tell.
		s, err := r.Stage("f", PutOptions{})
		must(t, err)
		want(t, "Abort", s.Abort(), syscall.EIO)
		must(t, os.Remove(stageIn(t, base)))
	})
	// A stage that somebody else removed is no failure of the cleanup.
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		hook(r, both(once("remove STAGE", func() { must(t, os.Remove(stageIn(t, base))) }),
			answers(map[string]error{"unnamed": syscall.EOPNOTSUPP, "write": syscall.ENOSPC})))
		_, err := r.Put("f", []byte("x"), PutOptions{})
		want(t, "Put", err, syscall.ENOSPC)
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v looks like absence", err)
		}
		untouched(t, base)
	})
}
