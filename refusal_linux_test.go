package caproot

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// leavesNothing sees that a refused call made no parent.
func leavesNothing(t *testing.T, base, what string, err, target error) {
	t.Helper()
	want(t, what, err, target)
	if _, err := os.Lstat(base + "/root/new"); err == nil {
		t.Errorf("%s left a directory", what)
		must(t, os.RemoveAll(base+"/root/new"))
	}
}

// case 52: a name that the file system has no room for is a bad name under either
// resolver, and no parent is made for it.
func TestNamesTooLong(t *testing.T) {
	long := strings.Repeat("n", 256)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"new/" + long, "new/x/" + long + "/y", "new/" + strings.Repeat("n", 80_000)} {
			leavesNothing(t, base, "Put", verbs(r)["PutParents"](name), ErrName)
			leavesNothing(t, base, "MkdirAll", r.MkdirAll(name, 0o700), ErrName)
		}
		for _, name := range []string{long, "dir/" + long, long + "/x", strings.Repeat("n", 80_000)} {
			for _, verb := range []string{"ReadFile", "Stat", "Put", "Create", "Mkdir", "Remove", "RenameFrom", "LinkTo", "Symlink"} {
				err := verbs(r)[verb](name)
				if !errors.Is(err, ErrName) || !errors.Is(err, syscall.ENAMETOOLONG) || Code(err) != "name" {
					t.Errorf("%s(%d bytes): %v, code %s", verb, len(name), err, Code(err))
				}
			}
		}
		if code := Code(syscall.ENAMETOOLONG); code != "name" {
			t.Errorf("code %s", code)
		}
		must(t, verbs(r)["PutParents"]("new/"+long[:255]))
	})
}

// What a budget has no room for makes no parents.
func TestParentsBeyondBudget(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		grant := func(b Budget) *Root {
			sub, err := r.Grant(".", Grant{Policy: Workspace(), Budget: &b})
			must(t, err)
			return sub
		}
		for _, b := range []Budget{{9, 10}, {100, 0}, {100, 1}, {100, 2}} {
			sub := grant(b)
			_, err := sub.Put("new/er/file", make([]byte, 10), PutOptions{Parents: true})
			leavesNothing(t, base, "Put", err, ErrTooLarge)
			if spent := sub.Spent(); spent != (Budget{}) {
				t.Errorf("%+v: spent %+v", b, spent)
			}
			must(t, sub.Close())
		}
		sub := grant(Budget{100, 2})
		leavesNothing(t, base, "MkdirAll", sub.MkdirAll("new/er/est", 0o700), ErrTooLarge)
		must(t, sub.Close())
		sub = grant(Budget{10, 3})
		defer sub.Close()
		_, err := sub.Put("new/er/file", make([]byte, 10), PutOptions{Parents: true})
		must(t, err)
		if spent := sub.Spent(); spent != (Budget{10, 3}) {
			t.Errorf("spent %+v", spent)
		}
	})
}

// A Stage reserves for its parents too, and gives back what it did not use.
func TestStageWithParentsIsCharged(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Budget: &Budget{10, 3}}, func(t *testing.T, sub *Root, base string) {
		s, err := sub.Stage("new/er/file", PutOptions{Parents: true})
		must(t, err)
		_, err = s.Write(make([]byte, 10))
		must(t, err)
		if spent := sub.Spent(); spent != (Budget{10, 3}) {
			t.Errorf("spent %+v", spent)
		}
		must(t, s.Abort())
		if spent := sub.Spent(); spent != (Budget{0, 2}) {
			t.Errorf("after the abort: %+v", spent)
		}
	})
}
