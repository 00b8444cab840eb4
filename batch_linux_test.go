package caproot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
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

// A failure says what was published, what failed and what was not tried, and
// nothing is left behind.
func TestBatchFailure(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		names := func(receipts []identity.Receipt) (names []string) {
			for _, r := range receipts {
				names = append(names, r.Path)
			}
			return names
		}
		make3 := func() *Batch {
			os.Remove(base + "/root/one")
			os.Remove(base + "/root/two")
			b := r.Batch(BatchOptions{})
			for _, name := range []string{"one", "two", "dir/three"} {
				must(t, b.Put(name, []byte(name), PutOptions{NoReplace: true}))
			}
			return b
		}
		b := make3()
		must(t, os.WriteFile(base+"/root/two", []byte("theirs"), 0o600))
		report, err := b.Commit(t.Context())
		want(t, "Commit", err, fs.ErrExist)
		if !slices.Equal(names(report.Published), []string{"one"}) || len(report.Failed) != 1 || report.Failed[0].Name != "two" ||
			!slices.Equal(report.NotTried, []string{"dir/three"}) {
			t.Errorf("%+v", report)
		}
		want(t, "in the report", report.Failed[0].Err, fs.ErrExist)
		must(t, r.Check(report.Published[0]))
		if content(t, base, "two") != "theirs" {
			t.Error("replaced")
		}
		gone(t, base+"/root/dir/three")

		for _, fault := range []string{"sync file", "chmod"} { // in the barrier, and before it
			b = make3()
			s := hook(r, answers(map[string]error{fault: syscall.EIO}))
			if fault == "chmod" {
				b.staged[1].p.mode = 0o640
			}
			report, err = b.Commit(t.Context())
			r.sys = s.system
			want(t, fault, err, syscall.EIO)
			if len(report.Published) != 0 || len(report.Failed)+len(report.NotTried) != 3 {
				t.Errorf("%s: %+v", fault, report)
			}
			gone(t, base+"/root/one")
		}

		b = make3()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		s := hook(r, once("publish two", func() { cancel(cause) }))
		report, err = b.Commit(ctx)
		r.sys = s.system
		want(t, "canceled", err, cause)
		if !slices.Equal(names(report.Published), []string{"one", "two"}) || !slices.Equal(report.NotTried, []string{"dir/three"}) {
			t.Errorf("%+v", report)
		}
		noStage(t, base)
	})
}

// A process killed in a loop of batches leaves every file whole, and nothing
// else that a sweep does not take.
func TestKillDuringBatch(t *testing.T) {
	if dir := os.Getenv("CAPROOT_BATCHING"); dir != "" {
		batchUntilKilled(t, dir)
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for range 8 {
			must(t, os.MkdirAll(base+"/root/old", 0o755))
			must(t, os.MkdirAll(base+"/root/new", 0o755))
			child := exec.Command(os.Args[0], "-test.run=^TestKillDuringBatch$")
			child.Env = append(os.Environ(), "CAPROOT_BATCHING="+base+"/root")
			out, err := child.StdoutPipe()
			must(t, err)
			must(t, child.Start())
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "batch" {
			}
			time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond) // any point of the next batches
			must(t, child.Process.Kill())
			child.Wait()
			for e, err := range r.Walk(t.Context(), ".", WalkOptions{Filter: func(e Entry) WalkStep {
				if e.Depth() == 1 && e.Name() != "old" && e.Name() != "new" {
					return WalkSkipTree
				}
				return WalkTake
			}}) {
				must(t, err)
				if e.IsDir() || strings.HasPrefix(e.Name(), stagePrefix) && strings.HasPrefix(e.Path(), "old/") {
					continue
				}
				data, err := os.ReadFile(base + "/root/" + e.Path())
				must(t, err)
				if len(data) != 4096 || bytes.Count(data, data[:1]) != 4096 || strings.HasPrefix(e.Name(), stagePrefix) {
					t.Errorf("%s: %d bytes", e.Path(), len(data))
				}
			}
			_, err = r.Sweep("old")
			must(t, err)
			if left, err := r.Glob("old/" + stagePrefix + "*"); err != nil || left != nil {
				t.Errorf("left after a sweep: %q, %v", left, err)
			}
			must(t, os.RemoveAll(base+"/root/new"))
		}
	})
}

// case 96 for many files: all content is flushed before the first name, each
// directory once after the last.
func TestBatchOrder(t *testing.T) {
	p := Workspace()
	p.Durability = DurabilityDir
	r, err := Open(t.TempDir(), p)
	must(t, err)
	defer r.Close()
	must(t, r.Mkdir("a", 0o700))
	must(t, r.WriteFile("f", nil, 0o600))
	real := r.sys
	for barrier, flush := range map[Barrier]string{BarrierFiles: "sync file; sync file; sync file", BarrierFileSystem: "syncfs"} {
		s := &seam{system: real}
		r.sys = wholeFS{s}
		b := batchOf(t, r, 2, "text", BatchOptions{Barrier: barrier})
		s.log = nil
		report, err := b.Commit(t.Context())
		must(t, err)
		var got []string
		for _, event := range s.log {
			if word, _, _ := strings.Cut(event, " "); slices.Contains([]string{"sync", "syncfs", "publish", "rename"}, word) {
				got = append(got, event)
			}
		}
		expect := flush + "; publish a/0; publish a/1; publish STAGE; rename replace STAGE f; sync dir; sync dir"
		if got := strings.Join(got, "; "); got != strings.ReplaceAll(expect, "a/", "") {
			t.Errorf("%s\nwant %s", got, expect)
		}
		for _, receipt := range report.Published {
			if receipt.Durability != DurabilityDir {
				t.Errorf("%+v", receipt)
			}
		}
		r.sys = real
		must(t, r.RemoveAll("a"))
		must(t, r.Mkdir("a", 0o700))
	}
}

// wholeFS is a seam that lets the flush of a file system through, if there is one.
type wholeFS struct{ *seam }

func (w wholeFS) syncFS(file handle) error {
	if err := w.event("syncfs"); err != nil {
		return err
	}
	if whole, ok := w.system.(fsSyncer); ok {
		return whole.syncFS(file)
	}
	return nil
}

func batchUntilKilled(t *testing.T, dir string) {
	r, err := Open(dir, Workspace())
	must(t, err)
	for i := byte(0); ; i++ {
		b := r.Batch(BatchOptions{})
		for j := range 20 {
			data := bytes.Repeat([]byte{'a' + i%26}, 4096)
			must(t, b.Put(fmt.Sprint("old/", j), data, PutOptions{Durability: DurabilityNone}))
			must(t, b.Put(fmt.Sprintf("new/%d-%d", i, j), data, PutOptions{Durability: DurabilityNone}))
		}
		_, err := b.Commit(t.Context())
		must(t, err)
		os.Stdout.WriteString("batch\n")
	}
}
