package caproot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

// lacking are the answers of kernels and file systems that do not have a call.
var lackingUnnamed = []error{syscall.EOPNOTSUPP, syscall.EISDIR, syscall.EINVAL, syscall.ENOENT, syscall.ENOSYS}

// case 98: without O_TMPFILE the stage has a name, decided for each call.
func TestNamedStage(t *testing.T) {
	for _, missing := range lackingUnnamed {
		t.Run(missing.Error(), func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				s := hook(r, answers(map[string]error{"unnamed": missing}))
				for name, how := range map[string]identity.Publication{"f": identity.Renamed, "new": identity.Created} {
					receipt, err := r.Put(name, []byte("x"), PutOptions{Digest: true})
					must(t, err)
					if receipt.Published != how || !slices.Equal(receipt.Lost, []string{"unnamed-file"}) || content(t, base, name) != "x" {
						t.Errorf("%s: %+v", name, receipt)
					}
					must(t, r.Check(receipt))
					_, err = r.Put(name, []byte("xy"), PutOptions{IfMatch: &receipt})
					must(t, err)
					_, err = r.Put(name, nil, PutOptions{NoReplace: true})
					want(t, name, err, fs.ErrExist)
				}
				noStage(t, base)
				s.before = nil
				receipt, err := r.Put("f", nil, PutOptions{})
				must(t, err)
				if receipt.Lost != nil {
					t.Errorf("one answer switched the way of the next call: %q", receipt.Lost)
				}
			})
		})
	}
}

// Other answers than "no such call" are failures, not a reason for another way.
func TestUnnamedFails(t *testing.T) {
	for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EROFS, syscall.EMFILE} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			s := hook(r, answers(map[string]error{"unnamed": err}))
			_, got := r.Put("f", nil, PutOptions{})
			want(t, "Put", got, err)
			if s.count("create") != 0 {
				t.Error("tried a named stage")
			}
			untouched(t, base)
		})
	}
}

// case 99: a stage that cannot be named by its descriptor is copied to one that has a name.
func TestCopyToNamed(t *testing.T) {
	for _, missing := range lackingUnnamed {
		t.Run(missing.Error(), func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				hook(r, answers(map[string]error{"publish": missing}))
				data := strings.Repeat("0123456789", 30_000) // more than one buffer
				for name, how := range map[string]identity.Publication{"f": identity.Renamed, "new": identity.Created} {
					receipt, err := r.Put(name, []byte(data), PutOptions{Mode: 0o640, Digest: true})
					must(t, err)
					if receipt.Published != how || !slices.Equal(receipt.Lost, []string{"unnamed-file"}) || content(t, base, name) != data {
						t.Errorf("%s: %+v", name, receipt)
					}
					must(t, r.Check(receipt)) // the receipt is of the copy
					wantMode(t, base, name, 0o640)
					swapped, err := r.Put(name, []byte("x"), PutOptions{IfMatch: &receipt})
					must(t, err)
					if swapped.Published != identity.Swapped {
						t.Errorf("%s: %+v", name, swapped)
					}
					_, err = r.Put(name, nil, PutOptions{NoReplace: true})
					want(t, name, err, fs.ErrExist)
				}
				noStage(t, base)
			})
		})
	}
}

// A copy that fails leaves nothing.
func TestCopyToNamedFails(t *testing.T) {
	for _, at := range []string{"create STAGE", "lock", "write", "chmod", "sync file", "rename"} {
		t.Run(at, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				copying := false
				hook(r, func(event string) error {
					switch {
					case strings.HasPrefix(event, "publish"):
						copying = true
						return syscall.EOPNOTSUPP
					case copying && strings.HasPrefix(event, at):
						return syscall.EIO
					}
					return nil
				})
				for _, name := range []string{"f", "new"} {
					copying = false
					_, err := r.Put(name, []byte("x"), PutOptions{Mode: 0o640})
					want(t, name, err, syscall.EIO)
				}
				untouched(t, base)
			})
		})
	}
}

// case 100: no-replace is linked and unlinked where rename lacks the flag, and
// never becomes a rename that replaces.
func TestNoReplaceNeverReplaces(t *testing.T) {
	for _, missing := range []error{syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP} {
		t.Run(missing.Error(), func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				s := hook(r, answers(map[string]error{"unnamed": syscall.EOPNOTSUPP, "rename noreplace": missing}))
				receipt, err := r.Put("new", []byte("x"), PutOptions{NoReplace: true})
				must(t, err)
				if receipt.Nlink != 1 || content(t, base, "new") != "x" {
					t.Errorf("%+v", receipt)
				}
				must(t, os.Remove(base+"/root/new"))
				// The target appears between the look and the publication.
				s.before = func(event string) error {
					if event == "link STAGE new" {
						must(t, os.WriteFile(base+"/root/new", []byte("theirs"), 0o600))
					}
					return answers(map[string]error{"unnamed": syscall.EOPNOTSUPP, "rename noreplace": missing})(event)
				}
				_, err = r.Put("new", []byte("x"), PutOptions{NoReplace: true})
				want(t, "NoReplace", err, fs.ErrExist)
				if content(t, base, "new") != "theirs" {
					t.Error("replaced")
				}
				_, err = r.Move("f", "new", MoveOptions{})
				want(t, "Move", err, fs.ErrExist)
				s.before = answers(map[string]error{"rename noreplace": missing})
				_, err = r.Move("f", "g", MoveOptions{})
				must(t, err)
				_, err = r.Move("dir", "dir2", MoveOptions{})
				want(t, "Move of a directory", err, ErrUnsupported)
				_, err = r.Move("lk", "lk2", MoveOptions{})
				want(t, "Move of a link", err, ErrUnsupported)
				if n := s.count("rename replace"); n != 0 {
					t.Errorf("%d replacing renames: %q", n, s.log)
				}
				noStage(t, base)
			})
		})
	}
}

// The same for a target that appears between the look and linkat, and with
// rename's own flag.
func TestNoReplaceLosesTheRace(t *testing.T) {
	for name, c := range map[string]struct {
		at      string
		missing map[string]error
	}{
		"unnamed":   {"publish new", nil},
		"named":     {"rename noreplace", map[string]error{"unnamed": syscall.EOPNOTSUPP}},
		"by a copy": {"rename noreplace", map[string]error{"publish": syscall.ENOENT}},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				race := once(c.at, func() { must(t, os.WriteFile(base+"/root/new", []byte("theirs"), 0o600)) })
				s := hook(r, func(event string) error { race(event); return answers(c.missing)(event) })
				_, err := r.Put("new", []byte("mine"), PutOptions{NoReplace: true})
				want(t, "NoReplace", err, fs.ErrExist)
				if content(t, base, "new") != "theirs" || s.count("rename replace") != 0 {
					t.Errorf("replaced by %q", s.log)
				}
				noStage(t, base)
				// Without NoReplace the put goes on as a replacement.
				must(t, os.Remove(base+"/root/new"))
				race = once(c.at, func() { must(t, os.WriteFile(base+"/root/new", []byte("theirs"), 0o600)) })
				receipt, err := r.Put("new", []byte("mine"), PutOptions{})
				must(t, err)
				if receipt.Published != identity.Renamed || content(t, base, "new") != "mine" {
					t.Errorf("%+v", receipt)
				}
				noStage(t, base)
			})
		})
	}
}

// What is replaced vanishes before the rename: rename does not mind, exchange
// does, and then the name is new.
func TestTargetVanishes(t *testing.T) {
	eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
		gone := func(at string) func(string) error {
			return once(at, func() { must(t, os.Remove(base+"/root/f")) })
		}
		s := hook(r, gone("rename exchange"))
		receipt, err := r.Put("f", []byte("x"), PutOptions{Durability: DurabilityVolatile})
		must(t, err)
		if receipt.Published != identity.Created || content(t, base, "f") != "x" {
			t.Errorf("%+v", receipt)
		}
		for _, at := range []string{"open f", "rename exchange"} {
			receipt, err = r.Put("f", []byte("old"), PutOptions{})
			must(t, err)
			s.before = gone(at)
			_, err = r.Put("f", []byte("x"), PutOptions{IfMatch: &receipt})
			want(t, "IfMatch", err, ErrChanged)
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v looks like absence", err)
			}
			if _, err := os.Lstat(base + "/root/f"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("at %q: f is back: %v", at, err)
			}
			s.before = nil
		}
		noStage(t, base)
	})
}

// case 105: what happens to a named stage under the writer's hands is noticed,
// and nothing foreign is published or removed.
func TestStageIsTakenAway(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, stage string){
		"removed": func(t *testing.T, stage string) { must(t, os.Remove(stage)) },
		"replaced": func(t *testing.T, stage string) {
			must(t, os.Remove(stage))
			must(t, os.WriteFile(stage, []byte("foreign"), 0o600))
		},
		"linked": func(t *testing.T, stage string) { must(t, os.Remove(stage)); must(t, os.Symlink("f", stage)) },
		"hard":   func(t *testing.T, stage string) { must(t, os.Link(stage, stage+".more")) },
		"dir":    func(t *testing.T, stage string) { must(t, os.Remove(stage)); must(t, os.Mkdir(stage, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				hook(r, func(event string) error {
					switch event {
					case "unnamed":
						return syscall.EOPNOTSUPP
					case "sync file":
						attack(t, stageIn(t, base))
					}
					return nil
				})
				for _, target := range []string{"f", "new"} {
					_, err := r.Put(target, []byte("x"), PutOptions{})
					want(t, target, err, ErrChanged)
					if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
						t.Errorf("%v looks like absence", err)
					}
					left, _ := filepath.Glob(base + "/root/" + stagePrefix + "*")
					for _, l := range left {
						must(t, os.Remove(l))
					}
					if len(left) != map[string]int{"removed": 0, "hard": 2, "replaced": 1, "linked": 1, "dir": 1}[name] {
						t.Errorf("%s: left %q", target, left)
					}
				}
				untouched(t, base)
			})
		})
	}
}
