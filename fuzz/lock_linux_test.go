package fuzz_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// edit changes bytes in place: from cut on nothing is left, at offset there is
// text. The file keeps its inode, which its witness line names.
func edit(t *testing.T, path string, offset, cut uint16, text []byte) (before, after []byte) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after = bytes.Clone(before[:min(int(cut), len(before))])
	if end := int(offset) + len(text); end > len(after) && len(text) > 0 {
		after = append(after, make([]byte, end-len(after))...)
	}
	copy(after[min(int(offset), len(after)):], text)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(after); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// lockRoot is a directory whose flushes cost nothing.
func lockRoot(t *testing.T) (*caproot.Root, string) {
	dir := t.TempDir()
	if shm, err := os.MkdirTemp("/dev/shm", "caproot-fuzz"); err == nil {
		t.Cleanup(func() { os.RemoveAll(shm) })
		dir = shm
	}
	r, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir
}

// witnessOf is the line of a record that proves, as docs/locks.md has it: the
// last but one.
func witnessOf(record []byte) []byte {
	lines := bytes.Split(record, []byte("\n"))
	if len(lines) < 4 || len(lines[len(lines)-1]) != 0 {
		return nil
	}
	return lines[len(lines)-3]
}

// FuzzLockRecord: a dead holder's record, changed in any way, is read without
// harm, counts as held by nobody, and is removed only if its witness line is
// still what the holder wrote. Otherwise it stays as it is.
func FuzzLockRecord(f *testing.F) {
	f.Add(uint16(0), uint16(999), []byte{})                                                            // as it was
	f.Add(uint16(0), uint16(0), []byte{})                                                              // case 119: empty
	f.Add(uint16(0), uint16(0), []byte(`{"pid":1,"createdAt":"2000-01-01T00:00:00Z"}`))                // cases 114, 115: another maker's
	f.Add(uint16(0), uint16(0), []byte(`{"createdAt":"2999-01-01T00:00:00Z"}`+"\n\t\t\t\t\t\t\t\t\n")) // case 113
	f.Add(uint16(0), uint16(20), []byte{})                                                             // torn
	f.Add(uint16(2), uint16(999), []byte(`"`))                                                         // payload is no JSON
	for offset := uint16(0); offset < 600; offset += 40 {
		f.Add(offset, uint16(999), []byte("\t"))
		f.Add(offset, uint16(999), []byte(" \n"))
	}
	f.Fuzz(func(t *testing.T, offset, cut uint16, text []byte) {
		r, dir := lockRoot(t)
		dead := lock.NewManager("fuzz")
		if _, err := dead.Acquire(t.Context(), r, "t", lock.Options{}); err != nil {
			t.Fatal(err)
		}
		dead.Reset()
		path := filepath.Join(dir, "t.lock")
		before, after := edit(t, path, offset%2048, cut, text)
		intact := bytes.Equal(witnessOf(before), witnessOf(after))
		s, err := lock.Inspect(t.Context(), r, "t", lock.Options{})
		if err == nil && (s.State == lock.Held || s.State == lock.Dead && !intact) {
			t.Fatalf("a record with bytes %q is %v", after, s.State)
		}
		l, err := lock.TryAcquire(t.Context(), r, "t", lock.Options{})
		if err != nil {
			now, rerr := os.ReadFile(path)
			if rerr != nil || !bytes.Equal(now, after) {
				t.Fatalf("refused with %v, and the record is %q, %v, was %q", err, now, rerr, after)
			}
			return
		}
		if !intact {
			t.Fatalf("the record %q was removed without proof", after)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzLeaseRecord: no text makes a lease immortal, or its methods fail.
func FuzzLeaseRecord(f *testing.F) {
	f.Add(`{"lockId":"x","ttlMs":10000,"fencingToken":1,"fence":"00","heartbeatAt":"2999-01-01T00:00:00Z"}`)            // case 146
	f.Add(`{"lockId":"x","ttlMs":9223372036854775807,"pid":-1,"startTime":"18446744073709551615"}`)                     // case 114
	f.Add(`{"ttlMs":-1,"heartbeatAt":"0000-01-01T00:00:00Z","hostname":"\u0000","bootId":"","pidNamespace":"pid:[1]"}`) // cases 116, 117
	f.Fuzz(func(t *testing.T, text string) {
		var r lock.LeaseRecord
		if json.Unmarshal([]byte(text), &r) != nil {
			return
		}
		now := time.Now()
		if ttl := r.TTL(); ttl < 0 || ttl > lock.MaxTTL || r.Expiry(now).After(now.Add(lock.MaxTTL)) {
			t.Fatalf("%q lasts %v, until %v", text, ttl, r.Expiry(now))
		}
		_ = r.Liveness().String()
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%q does not write: %v", text, err)
		}
		var back lock.LeaseRecord
		if err := json.Unmarshal(written, &back); err != nil {
			return // a year of more than four digits has no such text
		}
		again, err := json.Marshal(back)
		if err != nil || !bytes.Equal(again, written) {
			t.Fatalf("%s reads back as %s, %v", written, again, err)
		}
	})
}

// FuzzFenceFile: whatever happens to one part of the fence file, tokens only
// rise: it is refused, or somebody has the lease, or the next token is greater.
// The same for a record that lies where a lease's would.
func FuzzFenceFile(f *testing.F) {
	f.Add(false, uint16(0), uint16(9999), []byte{})    // as it was
	f.Add(false, uint16(0), uint16(0), []byte{})       // case 153: empty
	f.Add(false, uint16(0), uint16(512), []byte{})     // no slots
	f.Add(false, uint16(512), uint16(9999), []byte{0}) // one slot torn
	f.Add(false, uint16(1024), uint16(9999), []byte{0xff})
	f.Add(false, uint16(16), uint16(9999), bytes.Repeat([]byte{1}, 16)) // another epoch
	f.Add(false, uint16(1536), uint16(9999), []byte("cell"))
	f.Add(true, uint16(0), uint16(0), []byte(`{"lockId":"x","ttlMs":50,"fencingToken":99,"fence":"00"}`))
	f.Fuzz(func(t *testing.T, record bool, offset, cut uint16, text []byte) {
		r, dir := lockRoot(t)
		o := lock.LeaseOptions{} // long enough for a machine that stands still
		var token uint64
		for range 2 {
			l, err := lock.AcquireLease(t.Context(), r, "t", o)
			if err != nil {
				t.Fatal(err)
			}
			token = l.Token()
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
		}
		path := dir + "/t.lock"
		if record {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			path = fenceFileOf(t, dir)
		}
		edit(t, path, offset%4096, cut, text)
		lock.InspectLease(t.Context(), r, "t", o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l, err := lock.AcquireLease(ctx, r, "t", o)
		if err != nil {
			return
		}
		if l.Token() <= token {
			t.Fatalf("token %d after %d", l.Token(), token)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

func fenceFileOf(t *testing.T, dir string) string {
	found, err := filepath.Glob(dir + "/.caproot/fence/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if filepath.Ext(path) == "" {
			return path
		}
	}
	t.Fatalf("no fence file among %q", found)
	return ""
}
