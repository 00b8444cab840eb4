package lock

import (
	"crypto/rand"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A name that a lease accepts leaves room for that under which the record of a
// dead holder is evicted.
func TestLongestName(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	longest := strings.Repeat("n", 255-len(recordSuffix)-len(evictInfix)-evictRandom)
	_, err := AcquireLease(deadline(t), r, longest+"n", LeaseOptions{})
	want(t, "too long", err, unix.ENAMETOOLONG)
	wantNames(t, dir)
	l, err := AcquireLease(deadline(t), r, longest, LeaseOptions{TTL: MinTTL})
	must(t, err)
	l.freeze()
	next, err := AcquireLease(deadline(t), r, longest, LeaseOptions{Timeout: 10e9})
	must(t, err)
	must(t, next.Release())
	want(t, "release of the late", l.Release(), ErrLeaseLost)
	wantNames(t, dir, ".caproot")
}

// What an eviction left whose process died in it is swept, while nobody evicts;
// what only has such a name is not.
func TestSweepEvicted(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	l := acquireTest(t, r, LeaseOptions{})
	record, err := os.ReadFile(dir + "/target.lock")
	must(t, err)
	must(t, l.Release())
	aside := dir + "/target.lock" + evictInfix + rand.Text()
	stranger := "photo.evict." + rand.Text()
	must(t, os.WriteFile(aside, record, 0o600))
	must(t, os.WriteFile(dir+"/"+stranger, []byte("mine"), 0o600))
	must(t, os.Mkdir(dir+"/target.lock.reclaim", 0o755))
	sweeps := func(what string, wanted int) {
		t.Helper()
		if n, err := Sweep(r, "."); n != wanted || err != nil {
			t.Errorf("%s: %d swept, %v", what, n, err)
		}
	}
	sweeps("under a guard", 0)
	must(t, os.Remove(dir+"/target.lock.reclaim"))
	must(t, os.Link(aside, aside+"2"))
	sweeps("with a second name", 0)
	must(t, os.Remove(aside+"2"))
	locked, err := os.Open(aside)
	must(t, err)
	must(t, flock(locked, false))
	sweeps("locked", 0)
	must(t, locked.Close())
	sweeps("left", 1)
	wantNames(t, dir, ".caproot", stranger)
}

// There is no token after the last, and no slot: the fence refuses to begin again.
func TestLastToken(t *testing.T) {
	for what, slot := range map[string]fenceSlot{
		"token":    {seq: 5, token: math.MaxUint64},
		"sequence": {seq: math.MaxUint64, token: 5},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r := openRoot(t, dir)
			must(t, acquireTest(t, r, LeaseOptions{}).Release())
			path := dir + "/" + fenceName("target.lock")
			raw, err := os.ReadFile(path)
			must(t, err)
			v, err := parseFence(raw)
			must(t, err)
			overwrite(t, path, slot.encode(v.epoch), sectorBytes)
			overwrite(t, path, slot.encode(v.epoch), 2*sectorBytes)
			l, err := AcquireLease(deadline(t), r, "target", LeaseOptions{})
			want(t, "acquire", err, ErrFenceLost)
			if err == nil {
				must(t, l.Release())
			}
			wantNames(t, dir, ".caproot")
		})
	}
}
