package caproot

import (
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
