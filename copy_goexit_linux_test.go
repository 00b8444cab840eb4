package caproot

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/caproot/caproot/identity"
)

// A callback that ends its goroutine, as t.FailNow does, ends one copy: those that
// wait for it to make a further name of it go on.
func TestCopyTreeGoexit(t *testing.T) {
	const pairs = 20
	for k := range 2 * pairs {
		src := t.TempDir()
		for i := range pairs {
			must(t, os.WriteFile(fmt.Sprintf("%s/a%d", src, i), []byte("x"), 0o644))
			must(t, os.Link(fmt.Sprintf("%s/a%d", src, i), fmt.Sprintf("%s/b%d", src, i)))
		}
		to, from, dir := treeOf(t, src)
		calls := make(chan int, 1)
		calls <- 0
		o := TreeCopyOptions{Hardlinks: LinksKeep, Workers: 2, GoOn: true, File: CopyOptions{PutOptions: PutOptions{Durability: DurabilityNone}}}
		o.Copied = func(identity.Receipt) {
			n := <-calls
			calls <- n + 1
			if n == k {
				runtime.Goexit()
			}
		}
		fds := openFDs(t)
		_, err := to.CopyTree(t.Context(), "copy", from, ".", o)
		want(t, "CopyTree", err, errExited)
		if n := len(listed(t, dir+"/copy")); n != 2*pairs {
			t.Errorf("ended at %d: %d files", k, n)
		}
		if now := openFDs(t); now != fds {
			t.Errorf("ended at %d: descriptors: %d before, %d after", k, fds, now)
		}
	}
}
