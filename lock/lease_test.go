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

// acquireTest acquires "target" below r for the test.
func acquireTest(t testing.TB, r *caproot.Root, o LeaseOptions) *Lease {
	t.Helper()
	l, err := AcquireLease(context.Background(), r, "target", o)
	must(t, err)
	return l
}

func TestLease(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	l := acquireTest(t, r, LeaseOptions{Owner: "me"})
	wantNames(t, dir, ".caproot", "target.lock")
	if l.Token() != 1 || l.Expired() {
		t.Errorf("token %d, expired %v", l.Token(), l.Expired())
	}
	must(t, l.Verify(context.Background()))
	_, err := AcquireLease(context.Background(), r, "./target", LeaseOptions{})
	want(t, "second", err, ErrBusy)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Payload.(map[string]any)["ownerId"] != "me" {
		t.Errorf("%#v", busy)
	}
	_, err = AcquireLease(l.Context(context.Background()), r, "target", LeaseOptions{})
	want(t, "nested", err, ErrNested)
	_, err = TryAcquire(context.Background(), r, "target", Options{})
	want(t, "sidecar", err, ErrBusy)

	must(t, l.Extend(context.Background(), time.Hour))
	s, err := InspectLease(context.Background(), r, "target", LeaseOptions{})
	must(t, err)
	if s.State != Held || s.Record.TTL() != time.Hour || time.Until(s.Expires) < 50*time.Minute {
		t.Errorf("%+v", s)
	}
	ctx := l.Context(context.Background())
	must(t, l.Release())
	must(t, l.Release())
	if <-ctx.Done(); context.Cause(ctx) != ErrReleased || !l.Expired() {
		t.Errorf("%v, expired %v", context.Cause(ctx), l.Expired())
	}
	want(t, "Verify", l.Verify(context.Background()), ErrFenced)
	wantNames(t, dir, ".caproot")
	s, err = InspectLease(context.Background(), r, "target", LeaseOptions{})
	must(t, err)
	if s.State != Free || s.Token != 1 {
		t.Errorf("%+v", s)
	}
}

// Margins are refused at construction, before anything is made.
func TestLeaseOptions(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	for name, o := range map[string]LeaseOptions{
		"short TTL":           {TTL: MinTTL - 1},
		"long TTL":            {TTL: MaxTTL + 1},
		"negative TTL":        {TTL: -1},
		"late heartbeat":      {TTL: time.Second, Heartbeat: 501 * time.Millisecond},
		"hurried heartbeat":   {Heartbeat: 9 * time.Millisecond},
		"negative grace":      {Grace: -1},
		"negative timeout":    {Timeout: -1},
		"immeasurable grace":  {Grace: MaxTTL + 1},
		"heartbeat above TTL": {TTL: MinTTL, Heartbeat: time.Second},
	} {
		_, err := AcquireLease(context.Background(), r, "target", o)
		want(t, name, err, ErrOption)
	}
	wantNames(t, dir)
	p := caproot.Workspace()
	p.Rights &^= caproot.Modify
	narrow, err := caproot.Open(dir, p)
	must(t, err)
	defer narrow.Close()
	_, err = AcquireLease(context.Background(), narrow, "target", LeaseOptions{})
	want(t, "rights", err, caproot.ErrPolicy)
	wantNames(t, dir)
}

// The lease excludes holders of the other kind, and takes over from dead ones.
func TestLeaseAndSidecar(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	l, err := Acquire(context.Background(), r, "target", Options{})
	must(t, err)
	_, err = AcquireLease(context.Background(), r, "target", LeaseOptions{})
	want(t, "lease", err, ErrBusy)
	must(t, l.Release())
	acquireTest(t, r, LeaseOptions{}).Release()
	for content, wanted := range map[string]error{`{"pid":1}`: ErrBusy, "": ErrStale, "{": ErrStale} {
		must(t, os.WriteFile(dir+"/target.lock", []byte(content), 0o600))
		_, err = AcquireLease(context.Background(), r, "target", LeaseOptions{})
		want(t, "fresh", err, ErrBusy)
		long := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(dir+"/target.lock", long, long))
		_, err = AcquireLease(context.Background(), r, "target", LeaseOptions{})
		want(t, "old "+content, err, wanted)
		if data, err := os.ReadFile(dir + "/target.lock"); err != nil || string(data) != content {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func TestFenceAt(t *testing.T) {
	r := openRoot(t, t.TempDir())
	ctx := context.Background()
	_, err := FenceAt(ctx, r, "target", 0)
	want(t, "token 0", err, ErrOption)
	old, err := FenceAt(ctx, r, "target", 5)
	must(t, err)
	defer old.Close()
	fenced, err := r.Fenced(old)
	must(t, err)
	defer fenced.Close()
	must(t, fenced.WriteFile("target", []byte("five"), 0o600))
	next, err := FenceAt(ctx, r, "./target", 9)
	must(t, err)
	want(t, "old", fenced.WriteFile("target", []byte("five again"), 0o600), ErrFenced)
	_, err = FenceAt(ctx, r, "target", 8)
	want(t, "FenceAt 8", err, ErrFenced)
	_, err = AcquireLease(ctx, r, "target", LeaseOptions{})
	want(t, "lease", err, ErrOption)
	must(t, next.Close())
	_, err = next.Enter()
	want(t, "closed", err, ErrFenced)
}

// A transition that was torn by a loss of power leaves the slot that counted.
func TestTornSlot(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	for range 2 {
		l := acquireTest(t, r, LeaseOptions{})
		must(t, l.Release())
	}
	path := dir + "/" + fenceName("target.lock")
	data, err := os.ReadFile(path)
	must(t, err)
	before, err := parseFence(data)
	must(t, err)
	next := fenceSlot{seq: before.seq + 1, token: before.token + 1, state: slotHeld, ttl: time.Second}
	torn := next.encode(before.epoch)
	for cut := range sectorBytes {
		mixed := append([]byte(nil), data...)
		copy(mixed[before.older:], torn[:cut])
		after, err := parseFence(mixed)
		must(t, err)
		if whole := after.seq == next.seq; whole && after.token != next.token || !whole && after.fenceSlot != before.fenceSlot {
			t.Fatalf("cut at %d: %+v", cut, after)
		}
	}
}

// content is that of all files in the directory itself.
func content(t *testing.T, dir string) string {
	var b strings.Builder
	for _, name := range names(t, dir) {
		data, err := os.ReadFile(dir + "/" + name)
		if name != ".caproot" {
			must(t, err)
			b.WriteString(name + ": " + string(data) + "\n")
		}
	}
	return b.String()
}
