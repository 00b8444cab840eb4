package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// threads counts the threads of this process.
func threads(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(entries)
}

// queued counts who waits in the line of the only key of a domain.
func (m *Manager) queued() int {
	m.domain().mu.Lock()
	defer m.domain().mu.Unlock()
	n := 0
	for _, l := range m.domain().lines {
		n += l.waiting.Len()
	}
	return n
}

// 1,000 goroutines wait for a lock that another process holds: one thread is
// blocked in the kernel, and they get the lock in the order in which they came.
func TestFIFO(t *testing.T) {
	const waiters = 1000
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	c := start(t, dir, "hold")
	c.hears("held")
	before := threads(t)
	var order []int // guarded by the lock
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			l, err := m.Acquire(deadline(t), r, "target", Options{})
			if err != nil {
				t.Error(i, err)
				return
			}
			order = append(order, i)
			if err := l.Release(); err != nil {
				t.Error(i, err)
			}
		})
		for ctx := deadline(t); m.watching()+m.queued() < i+1 && ctx.Err() == nil; {
		}
	}
	awaitBlocked(t, 1)
	if more := threads(t) - before; more > 20 {
		t.Errorf("%d more threads for %d waiters", more, waiters)
	}
	c.tell()
	all.Wait()
	for i, who := range order {
		if who != i {
			t.Fatalf("waiter %d got the lock as number %d", who, i)
		}
	}
	wantNames(t, dir)
}

// A waiter that gives up leaves its place; those behind it move up.
func TestLeaveQueue(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	l, err := m.Acquire(deadline(t), r, "target", Options{})
	must(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	results := make(chan error, 2)
	go func() {
		_, err := m.Acquire(ctx, r, "target", Options{})
		results <- err
	}()
	for m.queued() < 1 {
	}
	go func() {
		l, err := m.Acquire(deadline(t), r, "target", Options{})
		if err == nil {
			err = l.Release()
		}
		results <- err
	}()
	for m.queued() < 2 {
	}
	mine := errors.New("given up")
	cancel(mine)
	want(t, "cancelled", <-results, mine)
	must(t, l.Release())
	must(t, <-results)
	wantNames(t, dir)
}

// One process holds 10,000 locks at once.
func TestManyHeld(t *testing.T) {
	const many = 10_000
	limit := unix.Rlimit{Cur: many + 1000, Max: many + 1000}
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	if old.Max > limit.Max {
		limit.Max = old.Max
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Skipf("%d descriptors are not allowed: %v", limit.Cur, err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	before := threads(t)
	for i := range many {
		_, err := m.Acquire(ctx, r, fmt.Sprint(i), Options{})
		must(t, err)
	}
	if n := len(m.Held()); n != many {
		t.Errorf("%d held", n)
	}
	if more := threads(t) - before; more > 20 {
		t.Errorf("%d more threads", more)
	}
	must(t, m.Drain(ctx))
	wantNames(t, dir)
	if n := len(m.Held()); n != 0 {
		t.Errorf("%d held after Drain", n)
	}
}

// case 127: without an owner nobody shares, whatever the spelling; equal owners
// count references and the last release unlinks.
func TestOwners(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/d", 0o755))
	must(t, os.Symlink("d", dir+"/alias"))
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	first, err := m.Acquire(ctx, r, "d/target", Options{})
	must(t, err)
	for _, spelling := range []string{"alias/target", "./d/target", "d//target", "d/../d/target"} {
		_, err := m.TryAcquire(ctx, r, spelling, Options{})
		want(t, spelling, err, ErrBusy)
		_, err = m.TryAcquire(ctx, r, spelling, Options{Owner: "a"})
		want(t, spelling+" by an owner", err, ErrBusy)
	}
	must(t, first.Release())
	a, err := m.Acquire(ctx, r, "d/target", Options{Owner: "a"})
	must(t, err)
	b, err := m.TryAcquire(a.Context(ctx), r, "alias/target", Options{Owner: "a"})
	must(t, err)
	_, err = m.TryAcquire(ctx, r, "d/target", Options{Owner: "b"})
	want(t, "another owner", err, ErrBusy)
	_, err = m.TryAcquirePath(ctx, dir+"/d/target", Options{Owner: "a"})
	want(t, "the same owner by path", err, ErrBusy)
	_, err = NewManager(t.Name()+"2").TryAcquire(ctx, r, "d/target", Options{Owner: "a"})
	want(t, "the same owner in another domain", err, ErrBusy)
	if held := m.Held(); len(held) != 1 || held[0].References != 2 {
		t.Errorf("held: %+v", held)
	}
	must(t, a.Release())
	must(t, a.Release())
	wantNames(t, dir+"/d", "target.lock")
	must(t, b.Verify(ctx))
	want(t, "the released handle", a.Verify(ctx), ErrReleased)
	must(t, b.Release())
	wantNames(t, dir+"/d")
}

// Waiters of the same owner share as soon as one of them has the lock.
func TestOwnersShareWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	l, err := m.Acquire(deadline(t), r, "target", Options{})
	must(t, err)
	var all sync.WaitGroup
	var together sync.WaitGroup
	together.Add(3)
	for range 3 {
		all.Go(func() {
			l, err := m.Acquire(deadline(t), r, "target", Options{Owner: "a"})
			if err != nil {
				t.Error(err)
			}
			together.Done()
			together.Wait()
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	for m.queued() < 3 {
	}
	must(t, l.Release())
	all.Wait()
	wantNames(t, dir)
}

// A call under a lock that would wait for itself fails at once; an independent
// one waits; a lock that was given up is no ancestor any more.
func TestNestedAndOrder(t *testing.T) {
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "target", Options{Rank: 2})
	must(t, err)
	under := l.Context(ctx)
	_, err = m.Acquire(under, r, "target", Options{})
	want(t, "nested", err, ErrNested)
	_, err = m.Acquire(under, r, "another", Options{LockPath: "target.lock"})
	want(t, "nested by the record", err, ErrNested)
	_, err = NewManager(t.Name()+"2").Acquire(under, r, "target", Options{})
	want(t, "nested in another domain", err, ErrNested)
	_, err = m.AcquirePath(under, dir+"/target", Options{})
	want(t, "nested by path", err, ErrNested)
	_, err = m.Acquire(under, r, "low", Options{Rank: 1})
	want(t, "down", err, ErrOrder)
	for _, rank := range []int{0, 2, 3} {
		other, err := m.Acquire(under, r, "other", Options{Rank: rank})
		must(t, err)
		_, err = m.Acquire(other.Context(under), r, "low", Options{Rank: 1})
		want(t, "down, two levels", err, ErrOrder)
		must(t, other.Release())
	}
	must(t, l.Release())
	want(t, "context of a released lock", context.Cause(under), ErrReleased)
	fresh := context.WithoutCancel(under)
	l, err = m.Acquire(fresh, r, "target", Options{Rank: 1})
	must(t, err)
	must(t, l.Release())

	// The context of a callback counts too.
	_, err = m.Acquire(ctx, r, "target", Options{Payload: func(ctx context.Context) (any, error) {
		_, err := m.Acquire(ctx, r, "target", Options{})
		return nil, err
	}})
	want(t, "nested in the payload", err, ErrNested)
	wantNames(t, dir)
}

// With reports what the work and the release each have to say.
func TestWith(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), deadline(t)
	work := errors.New("work failed")
	if err := With(ctx, r, "target", Options{}, func(context.Context) error { return work }); err != work {
		t.Errorf("error of the work came back as %v", err)
	}
	err := With(ctx, r, "target", Options{}, func(context.Context) error {
		must(t, os.Remove(dir+"/target.lock"))
		return work
	})
	want(t, "both", err, work)
	want(t, "both", err, ErrCompromised)
	func() {
		defer func() { recover() }()
		With(ctx, r, "target", Options{}, func(context.Context) error { panic("in the work") })
	}()
	wantNames(t, dir)
}

// Monitoring reports a loss once, by every way there is to hear of it.
func TestMonitor(t *testing.T) {
	for what, attack := range map[string]func(t *testing.T, record string){
		"removed":   func(t *testing.T, record string) { must(t, os.Remove(record)) },
		"rewritten": func(t *testing.T, record string) { must(t, os.WriteFile(record, []byte("{}"), 0o600)) },
		"replaced": func(t *testing.T, record string) {
			data, err := os.ReadFile(record)
			must(t, err)
			must(t, os.WriteFile(record+".new", data, 0o600))
			must(t, os.Rename(record+".new", record))
		},
		"linked": func(t *testing.T, record string) { must(t, os.Link(record, record+".second")) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r, ctx := openRoot(t, dir), deadline(t)
			var calls atomic.Int32
			told := make(chan error, 8)
			l, err := Acquire(ctx, r, "target", Options{CheckInterval: minCheck, OnCompromised: func(err error) {
				calls.Add(1)
				told <- err
			}})
			must(t, err)
			work := l.Context(ctx)
			must(t, l.Verify(ctx))
			attack(t, dir+"/target.lock")
			<-l.Lost()
			want(t, "OnCompromised", <-told, ErrCompromised)
			<-work.Done()
			want(t, "the work's context", context.Cause(work), ErrCompromised)
			want(t, "Verify", l.Verify(ctx), ErrCompromised)
			before := names(t, dir)
			want(t, "Release", l.Release(), ErrCompromised)
			must(t, l.Release())
			if after := names(t, dir); strings.Join(after, " ") != strings.Join(before, " ") {
				t.Errorf("release left %q of %q", after, before)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("OnCompromised was called %d times", n)
			}
			// The lock is given up, so who may have the name is served.
			if what == "removed" {
				again, err := TryAcquire(ctx, r, "target", Options{})
				must(t, err)
				must(t, again.Release())
			}
		})
	}
}

// Another process that takes the system's lock ends the witness.
func TestStolenWitness(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), deadline(t)
	l, err := Acquire(ctx, r, "target", Options{})
	must(t, err)
	h := l.(*handle).h
	must(t, funlock(h.record.file))
	thief, err := os.Open(dir + "/target.lock")
	must(t, err)
	defer thief.Close()
	must(t, flock(thief, false))
	want(t, "Verify", l.Verify(ctx), ErrCompromised)
	must(t, l.Release()) // it is this holder's record all the same
	wantNames(t, dir)
}

// Descriptor hazards: a descriptor that was closed behind our back, and whose
// number another file has got, is noticed, and that file is not closed.
func TestForeignDescriptor(t *testing.T) {
	dir := t.TempDir()
	r, ctx := openRoot(t, dir), deadline(t)
	l, err := Acquire(ctx, r, "target", Options{})
	must(t, err)
	fd := int(l.(*handle).h.record.file.Fd())
	must(t, os.WriteFile(dir+"/innocent", nil, 0o600))
	other, err := unix.Open(dir+"/innocent", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Dup3(other, fd, unix.O_CLOEXEC))
	must(t, unix.Close(other))
	want(t, "Verify", l.Verify(ctx), ErrCompromised)
	want(t, "Release", l.Release(), ErrCompromised)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Errorf("the other file was closed: %v", err)
	}
	wantNames(t, dir, "innocent", "target.lock")
}
