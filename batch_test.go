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

// wholeFS is a seam that lets the flush of a file system through.
type wholeFS struct{ *seam }

func (w wholeFS) syncFS(file handle) error {
	if err := w.event("syncfs"); err != nil {
		return err
	}
	return w.system.(fsSyncer).syncFS(file)
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

// Whichever call of a batch fails, each file is whole and nothing leaks.
func TestBatchFaults(t *testing.T) {
	for n := 1; n <= 200; n++ {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/f", []byte("old"), 0o644))
		r, err := Open(dir, Workspace())
		must(t, err)
		fds := openFDs(t)
		faults := &faultSystem{system: r.sys, left: n}
		r.sys = faults
		b := r.Batch(BatchOptions{})
		err = errors.Join(b.Put("f", []byte("new!"), PutOptions{}), b.Put("g", []byte("new!"), PutOptions{Durability: DurabilityDir}))
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
