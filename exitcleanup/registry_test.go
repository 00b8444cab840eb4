package exitcleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// journal records the order of events.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("events %q, want %q", j.lines, lines)
	}
}

// entry returns a function that writes its name and returns err.
func (j *journal) entry(name string, err error) (string, func(context.Context) error) {
	return name, func(context.Context) error {
		j.write(name)
		return err
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestRunNewestFirstEachOnce(t *testing.T) {
	var r registry
	var j journal
	for _, name := range []string{"a", "b", "c"} {
		r.register(j.entry(name, nil))
	}
	if n := r.pending.Len(); n != 3 {
		t.Errorf("Len %d, want 3", n)
	}
	for range 2 {
		if err := r.run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	j.want(t, "c", "b", "a")

	r.register(j.entry("later", nil))
	if err := r.run(t.Context()); err != nil {
		t.Error(err)
	}
	j.want(t, "c", "b", "a", "later")
}

func TestRunAlsoRunsWhatEntriesRegister(t *testing.T) {
	var r registry
	var j journal
	r.register(j.entry("old", nil))
	r.register("outer", func(context.Context) error {
		r.register(j.entry("inner", nil))
		return nil
	})
	if err := r.run(t.Context()); err != nil {
		t.Error(err)
	}
	j.want(t, "inner", "old")
}

func TestCancel(t *testing.T) {
	var r registry
	var j journal
	kept := r.register(j.entry("kept", nil))
	gone := r.register(j.entry("gone", nil))
	if closed(gone.Done()) {
		t.Error("done before Cancel")
	}
	for range 2 {
		if !gone.Cancel() {
			t.Error("Cancel of a pending entry said it had started")
		}
	}
	if !closed(gone.Done()) || r.pending.Len() != 1 {
		t.Error("cancelled entry is still there")
	}
	if err := r.run(t.Context()); err != nil {
		t.Error(err)
	}
	if kept.Cancel() || !closed(kept.Done()) {
		t.Error("an entry that has run can be cancelled, or is not done")
	}
	j.want(t, "kept")
}

func TestCancelOfRunningEntryDoesNotWait(t *testing.T) {
	var r registry
	started, release := make(chan struct{}), make(chan struct{})
	e := r.register("slow", func(context.Context) error {
		close(started)
		<-release
		return nil
	})
	result := make(chan error)
	go func() { result <- r.run(t.Context()) }()
	<-started
	if e.Cancel() {
		t.Error("Cancel claims to have kept a running entry from running")
	}
	if closed(e.Done()) {
		t.Error("done while it runs")
	}
	close(release)
	<-e.Done()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestEntryCancelsItself(t *testing.T) {
	var r registry
	var e *Entry
	e = r.register("release", func(context.Context) error {
		if e.Cancel() {
			return errors.New("cancelled while running")
		}
		return nil
	})
	if err := r.run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConcurrentRunAndCancel(t *testing.T) {
	const entries, callers = 500, 8
	var r registry
	var runs [entries]atomic.Int32
	var canceled atomic.Int32
	all := make([]*Entry, entries)
	for i := range all {
		all[i] = r.register("", func(context.Context) error {
			runs[i].Add(1)
			return nil
		})
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if err := r.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		for _, e := range all {
			if e.Cancel() {
				canceled.Add(1)
			}
		}
	})
	wg.Wait()
	ran := int32(0)
	for i := range runs {
		n := runs[i].Load()
		if n > 1 {
			t.Errorf("entry %d ran %d times", i, n)
		}
		ran += n
		<-all[i].Done()
	}
	if ran+canceled.Load() != entries {
		t.Errorf("%d ran and %d were cancelled, want %d together", ran, canceled.Load(), entries)
	}
}

func TestFailuresDoNotStopOthers(t *testing.T) {
	var r registry
	var j journal
	r.register(j.entry("first", nil))
	r.register(j.entry("denied", fs.ErrPermission))
	r.register("panics", func(context.Context) error { panic(fs.ErrClosed) })
	r.register("panics with text", func(context.Context) error { panic("text") })
	r.register("wraps", func(context.Context) error { return fmt.Errorf("walk: %w", fs.SkipAll) })
	err := r.run(t.Context())
	j.want(t, "denied", "first")
	for _, target := range []error{fs.ErrPermission, fs.ErrClosed, fs.SkipAll} {
		if !errors.Is(err, target) {
			t.Errorf("errors.Is does not see %v in %v", target, err)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		t.Error("errors.Is sees what is not there")
	}
	var named *EntryError
	if !errors.As(err, &named) || named.Name != "wraps" {
		t.Errorf("first failure is %v, want that of the newest entry", named)
	}
	var panicked *PanicError
	if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "TestFailuresDoNotStopOthers") {
		t.Errorf("no panic with its stack in %v", err)
	}
	if n := len(members(err)); n != 4 {
		t.Errorf("%d failures, want 4: %v", n, err)
	}
	const text = `cleanup failed: "wraps": walk: skip everything and stop the walk; "panics with text": panic: text; ` +
		`"panics": panic: file already closed; "denied": permission denied`
	if err.Error() != text {
		t.Errorf("text\n%s\nwant\n%s", err, text)
	}
}

func TestGoexitIsAFailure(t *testing.T) {
	var r registry
	var j journal
	r.register(j.entry("older", nil))
	r.register("exits", func(context.Context) error {
		runtime.Goexit()
		return nil
	})
	if err := r.run(t.Context()); !errors.Is(err, ErrGoexit) {
		t.Errorf("got %v, want ErrGoexit", err)
	}
	j.want(t, "older")
}

func TestDeadlineReportsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry
		var j journal
		release := make(chan struct{})
		r.register(j.entry("oldest", nil))
		r.register(j.entry("older", nil))
		hung := r.register("hung", func(context.Context) error { <-release; return nil })
		r.register(j.entry("newest", nil))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := r.run(ctx)
		const text = `cleanup failed: "hung": still running: context deadline exceeded; ` +
			`"older": not run: context deadline exceeded; "oldest": not run: context deadline exceeded`
		if err == nil || err.Error() != text {
			t.Errorf("got %v\nwant %s", err, text)
		}
		for _, target := range []error{ErrNotRun, ErrUnfinished, context.DeadlineExceeded} {
			if !errors.Is(err, target) {
				t.Errorf("errors.Is does not see %v", target)
			}
		}
		if closed(hung.Done()) {
			t.Error("hung entry is done")
		}
		close(release)
		<-hung.Done()
		j.want(t, "newest")

		if err := r.run(t.Context()); err != nil {
			t.Error(err)
		}
		j.want(t, "newest", "older", "oldest")
	})
}

func TestEntryThatHonoursItsContextKeepsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry
		left := errors.New("3 files left")
		r.register("tree", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(lastWord / 2)
			return left
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.run(ctx); !errors.Is(err, left) || errors.Is(err, ErrUnfinished) {
			t.Errorf("got %v, want the error of the entry", err)
		}
	})
}

func TestRunAllWaitsForEntriesOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry
		release := make(chan struct{})
		r.register("slow", func(context.Context) error { <-release; return nil })
		go func() { _ = r.run(context.Background()) }()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.run(ctx); !errors.Is(err, ErrUnfinished) || len(members(err)) != 1 {
			t.Errorf("got %v, want one entry still running", err)
		}
		time.AfterFunc(time.Second, func() { close(release) })
		if err := r.run(t.Context()); err != nil {
			t.Errorf("Run did not wait: %v", err)
		}
	})
}

func TestRunWithEndedContext(t *testing.T) {
	var r registry
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.run(ctx); err != nil {
		t.Errorf("nothing to run, but %v", err)
	}
	var j journal
	r.register(j.entry("a", nil))
	if err := r.run(ctx); !errors.Is(err, ErrNotRun) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want ErrNotRun and context.Canceled", err)
	}
	j.want(t)
}

func TestRegisterNilPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("nil function was registered")
		}
	}()
	new(registry).register("nil", nil)
}

func TestTenThousandEntriesInAnyOrder(t *testing.T) {
	var r registry
	entries := make([]*Entry, 10_000)
	for i := range entries {
		entries[i] = r.register("", func(context.Context) error { return nil })
	}
	for i := range entries {
		if !entries[(i*7919)%len(entries)].Cancel() {
			t.Fatalf("entry %d was not cancelled", i)
		}
	}
	if n := r.pending.Len(); n != 0 {
		t.Errorf("%d entries left", n)
	}
}

func BenchmarkRegisterCancel(b *testing.B) {
	var r registry
	fn := func(context.Context) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		r.register("lock", fn).Cancel()
	}
}
