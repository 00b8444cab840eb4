package caproot

import (
	"os"
	"syscall"
	"testing"
)

// case 94: a full disk takes no part of a batch that does not fit.
func TestBatchFullDisk(t *testing.T) {
	r, dir := smallDisk(t, "size=64k")
	must(t, os.WriteFile(dir+"/f", []byte("old"), 0o600))
	b := r.Batch(BatchOptions{})
	must(t, b.Put("f", make([]byte, 20<<10), PutOptions{}))
	want(t, "Put", b.Put("big", make([]byte, 100<<10), PutOptions{}), syscall.ENOSPC)
	must(t, b.Put("g", []byte("small"), PutOptions{}))
	report, err := b.Commit(t.Context())
	must(t, err)
	if entries, _ := os.ReadDir(dir); len(entries) != 2 || len(report.Published) != 2 {
		t.Errorf("%v, %+v", entries, report)
	}
}
