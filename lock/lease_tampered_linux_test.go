package lock

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

// These tests remove and replace files that somebody has open, which Windows does
// not let them do.

// Case 153: tokens rise over releases, deletion of the record, holders that
// vanish, and other Roots of the directory.
func TestTokensRise(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	last := uint64(0)
	for n := range 100 {
		l := acquireTest(t, r, LeaseOptions{Timeout: 10 * time.Second})
		if l.Token() <= last {
			t.Fatalf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		switch n % 4 {
		case 0:
			must(t, os.Remove(dir+"/target.lock"))
			want(t, "release", l.Release(), ErrLeaseLost)
		case 1:
			must(t, l.Release())
			must(t, r.Close())
			r = openRoot(t, dir)
		default:
			must(t, l.Release())
		}
	}
}

// Without a valid slot nothing is permitted, and no token is issued.
func TestFenceLost(t *testing.T) {
	damage := map[string]func(t *testing.T, path string){
		"removed":       func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"emptied":       func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"zeroed slots":  func(t *testing.T, path string) { overwrite(t, path, make([]byte, 2*sectorBytes), sectorBytes) },
		"zeroed header": func(t *testing.T, path string) { overwrite(t, path, make([]byte, sectorBytes), 0) },
		"replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", newFenceContent(epoch{1}, "target"), 0o600))
			must(t, os.Rename(path+".new", path))
		},
		"another epoch": func(t *testing.T, path string) { overwrite(t, path, newFenceContent(epoch{1}, "target"), 0) },
		"moved away":    func(t *testing.T, path string) { must(t, os.Rename(path, path+".away")) },
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := openRoot(t, dir)
			l := acquireTest(t, r, LeaseOptions{TTL: time.Hour})
			defer l.Release()
			fenced, err := r.Fenced(l)
			must(t, err)
			defer fenced.Close()
			do(t, dir+"/"+fenceName("target.lock"))
			_, err = fenced.Put("new", nil, caproot.PutOptions{})
			want(t, "Put", err, ErrFenceLost)
			want(t, "Extend", l.Extend(context.Background(), 0), ErrLeaseLost)
			<-l.Lost()
			wantNames(t, dir, ".caproot", "target.lock")
		})
	}
}

func overwrite(t *testing.T, path string, data []byte, offset int64) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(data, offset)
	must(t, errors.Join(err, f.Close()))
}

// Cases 148 and 150: a peer moves the record away and makes one of its own, or
// rewrites it. The old holder finds out and touches neither.
func TestRecordTaken(t *testing.T) {
	for name, take := range map[string]func(t *testing.T, path string){
		"moved": func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".away"))
			must(t, os.WriteFile(path, []byte("theirs"), 0o600))
		},
		"replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", []byte("theirs"), 0o600))
			must(t, os.Rename(path+".new", path))
		},
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"linked":  func(t *testing.T, path string) { must(t, os.Link(path, path+".link")) },
		"another lease's": func(t *testing.T, path string) {
			raw, err := os.ReadFile(path)
			must(t, err)
			record, _ := parseLease(raw)
			record.LockID = strings.Repeat("ab", 16)
			raw, err = record.encode(newToken())
			must(t, err)
			must(t, os.WriteFile(path, raw, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			leased(t, LeaseOptions{}, func(t *testing.T, dir string, r *caproot.Root, l *Lease, c *testClock) {
				take(t, dir+"/target.lock")
				before := content(t, dir)
				time.Sleep(4 * time.Second)
				select {
				case <-l.Lost():
				default:
					t.Error("not lost")
				}
				want(t, "Verify", l.Verify(t.Context()), ErrLeaseLost)
				want(t, "Release", l.Release(), ErrLeaseLost)
				if after := content(t, dir); name != "linked" && after != before {
					t.Errorf("%q, was %q", after, before)
				}
			})
		})
	}
}
