package caproot

import (
	"os"
	"testing"

	"github.com/caproot/caproot/identity"
)

// A compare-and-swap that displaced the wrong object is taken back within the
// passage in which it was made.
func TestFencedSwapBack(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		was, err := r.Receipt("f")
		must(t, err)
		fence := &countingFence{t: t, left: 1000}
		fenced, err := r.Fenced(fence)
		must(t, err)
		defer fenced.Close()
		swapper := &beforeExchange{system: fenced.sys.(*fencedSystem).system, do: func() {
			must(t, os.WriteFile(base+"/root/g", []byte("theirs"), 0o600))
			must(t, os.Rename(base+"/root/g", base+"/root/f"))
		}}
		fenced.sys.(*fencedSystem).system = swapper
		receipt, err := fenced.Put("f", []byte("mine"), PutOptions{IfMatch: &was})
		want(t, "Put", err, ErrChanged)
		if data, _ := os.ReadFile(base + "/root/f"); string(data) != "theirs" || receipt.Published != identity.Unpublished {
			t.Errorf("%q, %v", data, receipt.Published)
		}
	})
}

// beforeExchange acts before the first exchange of names.
type beforeExchange struct {
	system
	do func()
}

func (s *beforeExchange) rename(from handle, name string, to handle, newName string, how renameHow) error {
	if how == exchanging && s.do != nil {
		s.do()
		s.do = nil
	}
	return s.system.rename(from, name, to, newName, how)
}
