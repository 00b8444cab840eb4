package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caproot/caproot/identity"
)

// batchOf has the files a/0 to a/n-1 and f, each with the content text.
func batchOf(t *testing.T, r *Root, n int, text string, o BatchOptions) *Batch {
	t.Helper()
	b := r.Batch(o)
	for i := range n {
		must(t, b.Put(fmt.Sprintf("a/%d", i), []byte(text), PutOptions{Parents: true, Digest: true}))
	}
	must(t, b.PutFrom(t.Context(), "f", strings.NewReader(text), PutOptions{}))
	return b
}

func TestBatch(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for i, barrier := range []Barrier{BarrierAuto, BarrierFiles, BarrierFileSystem} {
			for _, n := range []int{0, 3, 40} {
				text := fmt.Sprint("text ", i, n)
				b := batchOf(t, r, n, text, BatchOptions{Barrier: barrier})
				if content(t, base, "f") == text {
					t.Error("published before Commit")
				}
				report, err := b.Commit(t.Context())
				must(t, err)
				if len(report.Published) != n+1 || report.Failed != nil || report.NotTried != nil {
					t.Fatalf("%+v", report)
				}
				for i, receipt := range report.Published {
					must(t, r.Check(receipt))
					if name := fmt.Sprintf("a/%d", i); i < n && (receipt.Path != name || receipt.SHA256 == "") || receipt.Durability != DurabilityFile || content(t, base, receipt.Path) != text {
						t.Errorf("%+v", receipt)
					}
				}
				_, err = b.Commit(t.Context())
				want(t, "second Commit", err, fs.ErrClosed)
				want(t, "Put after Commit", b.Put("late", nil, PutOptions{}), fs.ErrClosed)
				must(t, b.Abort())
			}
		}
		b := batchOf(t, r, 3, "given up", BatchOptions{})
		must(t, b.Abort())
		_, err := b.Commit(t.Context())
		want(t, "Commit after Abort", err, fs.ErrClosed)
		if content(t, base, "f") == "given up" {
			t.Error("Abort published")
		}
		noStage(t, base)
	})
}

// Whichever call of a batch fails, each file is whole and nothing leaks.
func TestBatchFaults(t *testing.T) {
	for n := 1; n <= 200; n++ {
		r, dir, faults := faulty(t, n)
		fds := openFDs(t)
		b := r.Batch(BatchOptions{})
		err := errors.Join(b.Put("f", []byte("new!"), PutOptions{}), b.Put("g", []byte("new!"), PutOptions{Durability: DurabilityDir}))
		report, cerr := b.Commit(t.Context())
		err = errors.Join(err, cerr)
		if openFDs(t) != fds {
			t.Errorf("fault %d: descriptors leaked", n)
		}
		for _, name := range []string{"f", "g"} {
			data, rerr := os.ReadFile(dir + "/" + name)
			if s := string(data); s != "new!" && !(name == "f" && s == "old") && !errors.Is(rerr, fs.ErrNotExist) {
				t.Errorf("fault %d: %s has %q", n, name, s)
			}
			told := slices.ContainsFunc(report.Published, func(r identity.Receipt) bool { return r.Path == name })
			if told != (string(data) == "new!") {
				t.Errorf("fault %d: %s has %q, report %+v, %v", n, name, data, report, err)
			}
		}
		r.Close()
		if faults.left > 0 {
			return
		}
	}
	t.Error("200 faults and still not through")
}
