package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/blocklog"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

// span is when a version was written, in positions of the disk's log: from the
// beginning of the call to its return, -1 while there is none.
type span struct{ begun, done int }

// history is what was written to a file system, and when it was durable.
type history struct {
	disk   *blocklog.Disk
	root   *caproot.Root // waits for the directory
	lazy   *caproot.Root // waits for the content only
	random *rand.Rand
	// twoNames is set where a move that had not returned can leave both names.
	twoNames bool

	versions map[string][]span // of names that are replaced
	log      []span            // of records appended to "log"
	moves    []span            // of "m" from one directory to the other, from "d0" on
	counts   []span            // of the counter in "n.json"
	tokens   map[uint64]int    // of leases: when they were returned
}

func newHistory(t *testing.T, d *blocklog.Disk, dir string, random *rand.Rand) *history {
	t.Helper()
	for _, sub := range []string{"/d0", "/d1"} {
		must(t, os.Mkdir(dir+sub, 0o755))
	}
	h := &history{disk: d, root: opened(t, dir, durable()), lazy: opened(t, dir, caproot.Workspace()), random: random, versions: map[string][]span{}, tokens: map[uint64]int{}}
	h.begin("m")
	_, err := h.root.Put("d0/m", h.content("m"), caproot.PutOptions{})
	must(t, err)
	h.done("m")
	h.moves = []span{{0, d.Position()}}
	return h
}

func (h *history) begin(name string) {
	h.versions[name] = append(h.versions[name], span{h.disk.Position(), -1})
}

func (h *history) done(name string) {
	v := h.versions[name]
	v[len(v)-1].done = h.disk.Position()
}

// close ends the use of the file system.
func (h *history) close() {
	h.root.Close()
	h.lazy.Close()
}

// durable is how many results must be there at the end.
func (h *history) durable() int {
	n := len(h.tokens)
	for _, spans := range append(slices.Collect(maps.Values(h.versions)), h.log, h.moves, h.counts) {
		for _, s := range spans {
			if s.done >= 0 {
				n++
			}
		}
	}
	return n
}

// content is that of the version of a name that was begun last.
func (h *history) content(name string) []byte { return version(name, len(h.versions[name])-1) }

// version is content that no two versions share a block of.
func version(name string, n int) []byte {
	line := fmt.Sprintf("%s version %d\n", name, n)
	return bytes.Repeat([]byte(line), 1+n*337%2000)
}

// step makes one random change, and notes when it is durable.
func (h *history) step(t *testing.T) {
	name := fmt.Sprintf("f%d", h.random.IntN(5))
	switch h.random.IntN(9) {
	case 0, 1, 2:
		r := h.root
		if h.random.IntN(3) == 0 {
			r = h.lazy
		}
		h.begin(name)
		receipt, err := r.Put(name, h.content(name), caproot.PutOptions{Digest: true})
		must(t, err)
		if receipt.Durability == caproot.DurabilityDir {
			h.done(name)
		}
	case 3:
		h.batch(t, fmt.Sprintf("b%d-", h.random.IntN(3)))
	case 4:
		n := len(h.moves)
		h.moves = append(h.moves, span{h.disk.Position(), -1})
		_, err := h.root.Move(fmt.Sprintf("d%d/m", (n-1)%2), fmt.Sprintf("d%d/m", n%2), caproot.MoveOptions{})
		must(t, err)
		h.moves[n].done = h.disk.Position()
	case 5:
		h.log = append(h.log, span{h.disk.Position(), -1})
		_, err := h.root.Append("log", version("log", len(h.log)-1), caproot.AppendOptions{})
		must(t, err)
		h.log[len(h.log)-1].done = h.disk.Position()
	case 6:
		h.counts = append(h.counts, span{h.disk.Position(), -1})
		must(t, state.Update(t.Context(), h.root, "n.json", func(n *int) error { *n++; return nil }, state.Options{}))
		h.counts[len(h.counts)-1].done = h.disk.Position()
	case 7:
		l, err := lock.AcquireLease(t.Context(), h.root, "leased", lock.LeaseOptions{})
		must(t, err)
		h.tokens[l.Token()] = h.disk.Position()
		must(t, l.Release())
	case 8:
		payload := func(context.Context) (any, error) { return "the holder", nil }
		l, err := lock.TryAcquire(t.Context(), h.root, "locked", lock.Options{Durable: true, Payload: payload})
		must(t, err)
		must(t, l.Release())
	}
}

// batch is of 3 files, flushed each, or of 40, flushed with the file system.
func (h *history) batch(t *testing.T, prefix string) {
	b := h.root.Batch(caproot.BatchOptions{})
	defer b.Abort()
	n := 3
	if h.random.IntN(3) == 0 {
		n = 40
	}
	for i := range n {
		name := fmt.Sprint(prefix, i)
		h.begin(name)
		must(t, b.Put(name, h.content(name), caproot.PutOptions{}))
	}
	_, err := b.Commit(t.Context())
	must(t, err)
	for i := range n {
		h.done(fmt.Sprint(prefix, i))
	}
}

// allowed are the numbers of the versions that may be there after a cut: the last
// that was durable and those begun since, -1 for none at all.
func allowed(spans []span, position int) (low, high int) {
	low, high = -1, -1
	for i, s := range spans {
		if s.begun <= position {
			high = i
		}
		if s.done >= 0 && s.done <= position {
			low = i
		}
	}
	return low, high
}

// judge looks at what a cut left and tells what may not be.
func (h *history) judge(dir string, position int) (findings []string) {
	note := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	for name, spans := range h.versions {
		if name == "m" {
			continue
		}
		low, high := allowed(spans, position)
		data, err := os.ReadFile(dir + "/" + name)
		if n := which(name, data, err, high); n < low {
			note("%s has %d bytes (%v), no whole version of %d to %d", name, len(data), err, low, high)
		}
	}
	h.judgeMove(dir, position, note)
	h.judgeLog(dir, position, note)
	h.judgeState(dir, position, note)
	h.judgeLocks(dir, position, note)
	return findings
}

// which version the content is, -1 for no file and -2 for none.
func which(name string, data []byte, err error, high int) int {
	if errors.Is(err, fs.ErrNotExist) {
		return -1
	}
	for n := range high + 1 {
		if err == nil && bytes.Equal(data, version(name, n)) {
			return n
		}
	}
	return -2
}

func (h *history) judgeMove(dir string, position int, note func(string, ...any)) {
	low, high := allowed(h.moves, position)
	at := map[int]bool{}
	for i := range 2 {
		data, err := os.ReadFile(fmt.Sprintf("%s/d%d/m", dir, i))
		if err == nil && bytes.Equal(data, version("m", 0)) {
			at[i] = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			note("m in d%d has %d bytes (%v)", i, len(data), err)
		}
	}
	if low < 0 {
		return
	}
	if h.twoNames && low < high && len(at) == 2 {
		return
	}
	if len(at) != 1 || low == high && !at[low%2] {
		note("m is in %v, after moves %d to %d", at, low, high)
	}
}

func (h *history) judgeLog(dir string, position int, note func(string, ...any)) {
	low, high := allowed(h.log, position)
	var least, most []byte
	for n := range high + 1 {
		if most = append(most, version("log", n)...); n <= low {
			least = most
		}
	}
	data, err := os.ReadFile(dir + "/log")
	if low >= 0 && (err != nil || len(data) < len(least) || !bytes.Equal(data[:len(least)], least)) {
		note("log has %d bytes (%v), of %d at least", len(data), err, len(least))
	}
}

func (h *history) judgeState(dir string, position int, note func(string, ...any)) {
	low, high := allowed(h.counts, position)
	data, err := os.ReadFile(dir + "/n.json")
	var n int
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if errors.Is(err, fs.ErrNotExist) && low < 0 {
		return
	}
	if err != nil || n < low+1 || n > high+1 {
		note("counter is %d (%v), of %d to %d", n, err, low+1, high+1)
	}
}

// judgeLocks: no record is empty, a lock can be had again at once, and no token is
// given out twice.
func (h *history) judgeLocks(dir string, position int, note func(string, ...any)) {
	if raw, err := os.ReadFile(dir + "/locked.lock"); err == nil && !bytes.HasPrefix(raw, []byte(`"the holder"`)) {
		note("a durable record has %q", raw)
	}
	r, err := caproot.Open(dir, durable())
	if err != nil {
		note("%v", err)
		return
	}
	defer r.Close()
	l, err := lock.TryAcquire(context.Background(), r, "locked", lock.Options{})
	if err == nil {
		err = l.Release()
	}
	if err != nil {
		note("lock after the cut: %v", err)
	}
	var highest uint64
	for token, at := range h.tokens {
		if at <= position {
			highest = max(highest, token)
		}
	}
	if highest == 0 {
		return
	}
	status, err := lock.InspectLease(context.Background(), r, "leased", lock.LeaseOptions{})
	if err != nil || status.Token < highest {
		note("fence after the cut: token %d (%v), %d was given out", status.Token, err, highest)
	}
}
