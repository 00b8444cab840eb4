package lock

import (
	"context"
	"testing"
	"time"
)

// A token is not issued while a change with an older one is under way.
func TestTokenWaitsForChange(t *testing.T) {
	r := openRoot(t, t.TempDir())
	old, err := FenceAt(deadline(t), r, "target", 1)
	must(t, err)
	defer old.Close()
	leave, err := old.Enter()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = FenceAt(ctx, r, "target", 2)
	want(t, "FenceAt", err, context.DeadlineExceeded)
	leave()
	next, err := FenceAt(deadline(t), r, "target", 2)
	must(t, err)
	must(t, next.Close())
}

// A change that comes while a token is about to be issued waits for that, and is
// refused: shared lockers do not overtake.
func TestTurnstile(t *testing.T) {
	r := openRoot(t, t.TempDir())
	open := func(token uint64) *Fence {
		f, err := FenceAt(deadline(t), r, "target", token)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(1), open(1)
	leave, err := first.Enter()
	must(t, err)
	issued := make(chan error)
	go func() {
		f, err := FenceAt(deadline(t), r, "target", 2)
		if err == nil {
			err = f.Close()
		}
		issued <- err
	}()
	probe, err := openFence(r, "target.lock")
	must(t, err)
	defer probe.close()
	for lockFile(probe.turn, false, false, false) == nil {
		must(t, unlockFile(probe.turn, false))
		time.Sleep(time.Millisecond)
	}
	entered := make(chan error)
	go func() {
		leave, err := second.Enter()
		if err == nil {
			leave()
		}
		entered <- err
	}()
	select {
	case err := <-entered:
		t.Errorf("overtook: %v", err)
		leave()
	case err := <-issued:
		t.Errorf("issued during a change: %v", err)
	case <-time.After(20 * time.Millisecond):
		leave()
		want(t, "Enter", <-entered, ErrFenced)
	}
	must(t, <-issued)
}

// What was judged must be what is found under the lock: a holder that has renewed
// in between keeps its lease, and its record.
func TestJudgedAndFound(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	l := acquireTest(t, r, LeaseOptions{TTL: time.Hour})
	defer l.Release()
	q := request{ctx: t.Context(), r: r, target: "target"}
	must(t, q.o.complete())
	must(t, q.locate())
	defer q.place.close()
	file, err := openFence(r, q.place.lockPath)
	must(t, err)
	defer file.close()
	o := LeaseOptions{}
	must(t, o.complete())
	a := leaseAcquisition{acquisition: acquisition{request: &q}, lo: o, clock: bootClock{}, file: file}
	seen, err := a.look()
	must(t, err)
	defer func() { seen.close() }()
	must(t, l.Extend(t.Context(), 0))
	if second, err := a.take(seen); second != nil || err != nil {
		t.Errorf("%v, %v", second, err)
	}
	must(t, l.Verify(t.Context()))

	// The fence is as it was, but the record is another one: it is put back.
	seen.close()
	seen, err = a.look()
	must(t, err)
	record := l.Record()
	record.OwnerID = "another"
	must(t, l.rewrite(&record))
	before := content(t, dir)
	if second, err := a.take(seen); second != nil || err != nil {
		t.Errorf("%v, %v", second, err)
	}
	if after := content(t, dir); after != before {
		t.Errorf("%s\nwas\n%s", after, before)
	}
}

// Where a lock keeps nobody out there is no fence.
func TestLocksExclude(t *testing.T) {
	r := openRoot(t, t.TempDir())
	open := func(name string) *fenceFile {
		f, err := openFence(r, name)
		must(t, err)
		t.Cleanup(func() { f.close() })
		return f
	}
	first, second := open("a"), open("a")
	unlock, err := first.exclusive(t.Context())
	must(t, err)
	must(t, excluded(second.file))
	want(t, "another file", excluded(open("b").file), ErrUnsupported)
	must(t, unlock())
	want(t, "no lock", excluded(second.file), ErrUnsupported)
}
