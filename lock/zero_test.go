package lock

import (
	"context"
	"io/fs"
	"testing"
)

// Calls without a Root, and methods of values that nobody acquired or opened, are
// errors like others.
func TestZeroValues(t *testing.T) {
	ctx := context.Background()
	for call, err := range map[string]error{
		"Acquire":         second(Acquire(ctx, nil, "a", Options{})),
		"TryAcquire":      second(TryAcquire(ctx, nil, "a", Options{})),
		"With":            With(ctx, nil, "a", Options{}, nil),
		"Inspect":         second(Inspect(ctx, nil, "a", Options{})),
		"AcquireLease":    second(AcquireLease(ctx, nil, "a", LeaseOptions{})),
		"InspectLease":    second(InspectLease(ctx, nil, "a", LeaseOptions{})),
		"AcquireAdvisory": second(AcquireAdvisory(ctx, nil, "a", AdvisoryOptions{})),
		"OpenAdvisory":    second(OpenAdvisory(nil, "a")),
		"FenceAt":         second(FenceAt(ctx, nil, "a", 1)),
		"Sweep":           second(Sweep(nil, ".")),
	} {
		want(t, call, err, fs.ErrInvalid)
	}
	var l Lease
	want(t, "Verify", l.Verify(ctx), ErrReleased)
	want(t, "Extend", l.Extend(ctx, 0), ErrReleased)
	want(t, "Enter", second(l.Enter()), ErrFenced)
	want(t, "cause", context.Cause(l.Context(ctx)), ErrReleased)
	must(t, l.Release())
	if !l.Expired() || l.Token() != 0 {
		t.Errorf("expired %v, token %d", l.Expired(), l.Token())
	}
	var f Fence
	want(t, "Fence.Enter", second(f.Enter()), ErrFenced)
	must(t, f.Close())
	var a AdvisoryFile
	want(t, "AdvisoryFile.Acquire", second(a.Acquire(ctx, AdvisoryOptions{})), fs.ErrClosed)
	want(t, "AdvisoryFile.TryAcquire", second(a.TryAcquire(ctx, AdvisoryOptions{})), fs.ErrClosed)
	must(t, a.Close())
}

func second[T any](_ T, err error) error { return err }

// The zero Manager works in the default domain.
func TestZeroManager(t *testing.T) {
	r, ctx := openRoot(t, t.TempDir()), deadline(t)
	var m Manager
	l, err := m.WithDefaults(Options{Owner: "a"}).Acquire(ctx, r, "target", Options{})
	must(t, err)
	shared, err := Acquire(ctx, r, "target", Options{Owner: "a"})
	must(t, err)
	must(t, shared.Release())
	must(t, l.Release())
	if held := m.Held(); len(held) != 0 {
		t.Errorf("held: %+v", held)
	}
	must(t, m.Drain(ctx))
}
