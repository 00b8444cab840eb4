package caproot

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

// cases 94, 106: a failure at each step of a commit leaves the old content, and
// no stage; one after publication says that it came after.
func TestCommitFailures(t *testing.T) {
	for _, unnamed := range []error{nil, syscall.EOPNOTSUPP} {
		for _, at := range []string{"chmod", "sync file", "publish", "rename"} {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				s := hook(r, answers(map[string]error{"unnamed": unnamed, at: syscall.EIO}))
				for _, target := range []string{"f", "new"} {
					s.log = nil
					receipt, err := r.Put(target, []byte("x"), PutOptions{Mode: 0o640})
					if s.count(at) == 0 {
						must(t, err)
						must(t, os.WriteFile(base+"/root/f", []byte("content"), 0o644))
						os.Remove(base + "/root/new")
						continue
					}
					want(t, at, err, syscall.EIO)
					if receipt.Published != identity.Unpublished {
						t.Errorf("%+v", receipt)
					}
				}
				untouched(t, base)
			})
		}
	}
}

func TestFailuresAfterPublication(t *testing.T) {
	for _, at := range []string{"sync dir", "identify file"} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			hook(r, answers(map[string]error{at: syscall.EIO}))
			for target, how := range map[string]identity.Publication{"f": identity.Renamed, "new": identity.Created} {
				s, err := r.Stage(target, PutOptions{Durability: DurabilityDir})
				must(t, err)
				_, err = s.Write([]byte("x"))
				must(t, err)
				receipt, err := s.Commit()
				want(t, at, err, syscall.EIO)
				if receipt.Published != how || receipt.Path != target || !strings.Contains(err.Error(), "published") {
					t.Errorf("%v, %+v", err, receipt)
				}
				if at == "sync dir" && receipt.Durability != DurabilityFile {
					t.Errorf("durability %v", receipt.Durability)
				}
				if got := content(t, base, target); got != "x" {
					t.Errorf("content %q", got)
				}
				again, aerr := s.Commit()
				if again.Published != how || aerr != err {
					t.Errorf("second Commit: %v, %+v", aerr, again)
				}
			}
			noStage(t, base)
		})
	}
}

// case 97: a directory that cannot be flushed is reported, one that fails to be
// flushed is an error.
func TestDirSyncAnswers(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for answer, tolerated := range map[error]bool{syscall.EINVAL: true, syscall.ENOTSUP: true, syscall.ENOTTY: true,
			syscall.EPERM: true, syscall.EACCES: true, syscall.EIO: false, syscall.EROFS: false, syscall.ENOSPC: false} {
			s := hook(r, answers(map[string]error{"sync dir": answer}))
			receipt, err := r.Put("a/b/f", []byte("x"), PutOptions{Durability: DurabilityDir})
			if errors.Is(err, fs.ErrNotExist) {
				receipt, err = r.Put("a/f", []byte("x"), PutOptions{Durability: DurabilityDir, Parents: true})
			}
			if tolerated {
				must(t, err)
				if !slices.Equal(receipt.Lost, []string{"dir-sync"}) || receipt.Durability != DurabilityFile || receipt.Asked != DurabilityDir {
					t.Errorf("%v: %+v", answer, receipt)
				}
			} else {
				want(t, "sync", err, answer)
			}
			r.sys = s.system
			os.RemoveAll(base + "/root/a")
		}
	})
}
