package caproot

import (
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

// A failure after the move tells that it was moved.
func TestMoveFailsAfterwards(t *testing.T) {
	for _, at := range []string{"sync dir", "identify"} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			hook(r, answers(map[string]error{at: syscall.EIO}))
			receipt, err := r.Move("f", "dir/new", MoveOptions{Durability: DurabilityDir})
			want(t, "Move", err, syscall.EIO)
			if receipt.Published != identity.Created || receipt.Path != "dir/new" || content(t, base, "dir/new") != "content" {
				t.Errorf("%+v", receipt)
			}
		})
	}
	// Where rename cannot refuse to replace and the old name cannot be removed
	// there are two names, and the error says so.
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		hook(r, answers(map[string]error{"rename noreplace": syscall.EINVAL, "remove f": syscall.EIO}))
		_, err := r.Move("f", "new", MoveOptions{})
		want(t, "Move", err, syscall.EIO)
		if content(t, base, "f") != "content" || content(t, base, "new") != "content" {
			t.Error("a name is gone")
		}
	})
}

// Both directories of a move are flushed.
func TestMoveFlushesBothDirectories(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s := hook(r, nil)
		receipt, err := r.Move("f", "dir/new", MoveOptions{Durability: DurabilityDir})
		must(t, err)
		if s.count("sync dir") != 2 || receipt.Durability != DurabilityDir {
			t.Errorf("%q", s.sequence())
		}
		s.before = answers(map[string]error{"sync dir": syscall.EINVAL})
		receipt, err = r.Move("dir/new", "f", MoveOptions{Durability: DurabilityDir})
		must(t, err)
		if receipt.Durability != DurabilityFile || len(receipt.Lost) != 1 || receipt.Lost[0] != "dir-sync" {
			t.Errorf("%+v", receipt)
		}
	})
}
