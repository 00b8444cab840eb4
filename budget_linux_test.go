package caproot

import (
	"errors"
	"os"
	"testing"
)

// Whoever else makes the file meanwhile: a file that the grant made is charged,
// another is not, and neither is emptied unasked.
func TestBudgetInARace(t *testing.T) {
	for n, more := 1, true; more; n++ {
		more = false
		granted(t, Compat(), Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}}, func(t *testing.T, sub *Root, base string) {
			theirs := false
			w := &window{system: sub.sys, left: n, kernel: sub.beneath, attack: func() {
				f, err := os.OpenFile(base+"/root/dir/new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if theirs = err == nil; theirs {
					f.Write([]byte("theirs"))
					f.Close()
				}
			}}
			sub.sys = w
			f, err := sub.OpenView("dir/new", os.O_CREATE|os.O_RDWR, 0o600)
			sub.sys = w.system
			must(t, err)
			must(t, f.Close())
			more = more || w.left <= 0
			charged := Budget{Files: 1}
			if theirs {
				charged = Budget{}
			}
			if spent := sub.Spent(); spent != charged {
				t.Errorf("window %d: spent %+v, theirs: %v", n, spent, theirs)
			}
			if data, err := os.ReadFile(base + "/root/dir/new"); theirs && string(data) != "theirs" || err != nil {
				t.Errorf("window %d: %q, %v", n, data, err)
			}
		})
	}
}

// A budget that is too small by one, for each verb that spends: refused, and
// nothing is made.
func TestBudgetRefuses(t *testing.T) {
	for _, b := range []Budget{{0, NoLimit}, {NoLimit, 0}, {}} {
		granted(t, Compat(), Grant{Policy: Compat(), Budget: &b}, func(t *testing.T, sub *Root, base string) {
			before := seal(t, base+"/root")
			for verb, call := range verbs(sub) {
				switch verb {
				case "Put", "PutParents", "WriteFile", "Append":
				case "Mkdir", "MkdirAll", "LinkTo", "Symlink":
					if b.Files > 0 {
						continue
					}
				default:
					continue
				}
				err := call("dir/new")
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("%s: %v", verb, err)
				}
			}
			f, err := sub.OpenView("f", os.O_RDWR, 0)
			must(t, err)
			if b.Bytes == 0 {
				for _, what := range []string{"Write", "WriteAt"} {
					want(t, what, fileCalls(f)[what](), ErrTooLarge)
				}
				want(t, "Truncate", f.Truncate(100), ErrTooLarge)
			}
			must(t, f.Close())
			if after := seal(t, base+"/root"); after != before {
				t.Errorf("changed:\n%s\nwas\n%s", after, before)
			}
			if spent := sub.Spent(); spent != (Budget{}) {
				t.Errorf("spent %+v", spent)
			}
		})
	}
}
