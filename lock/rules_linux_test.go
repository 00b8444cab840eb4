package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

// evaluated counts the calls of a payload.
func evaluated(n *int) func(context.Context) (any, error) {
	return func(context.Context) (any, error) {
		*n++
		return fields{"n": *n}, nil
	}
}

// Options out of range are refused before anything is evaluated or made.
func TestOptionsRefused(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	for what, o := range map[string]Options{
		"StaleAfter":       {StaleAfter: -1},
		"StaleRecovery":    {StaleRecovery: 2},
		"CheckInterval":    {CheckInterval: time.Microsecond},
		"long interval":    {CheckInterval: math.MaxInt32*time.Millisecond + 1},
		"negative":         {CheckInterval: -time.Second},
		"Attempts":         {Retry: Retry{Attempts: -1}},
		"Min":              {Retry: Retry{Min: -1}},
		"Max":              {Retry: Retry{Max: -1}},
		"Min above Max":    {Retry: Retry{Min: 2, Max: 1}},
		"Factor":           {Retry: Retry{Factor: 0.5}},
		"infinite Factor":  {Retry: Retry{Factor: math.Inf(1)}},
		"Factor no number": {Retry: Retry{Factor: math.NaN()}},
	} {
		calls := 0
		o.Payload = evaluated(&calls)
		_, err := m.Acquire(deadline(t), r, "a/target", o)
		want(t, what, err, ErrOption)
		_, err = m.AcquirePath(deadline(t), dir+"/b/target", o)
		want(t, what+" by path", err, ErrOption)
		if calls != 0 {
			t.Errorf("%s: the payload was evaluated", what)
		}
	}
	wantNames(t, dir)
}

// Spellings, rights, the root's life and a link at the record come before the
// payload, and the payload and its size before anything on disk.
func TestOrderOfChecks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("missing", dir+"/link.lock"))
	closed, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	must(t, closed.Close())
	r, m := openRoot(t, dir), NewManager(t.Name())
	for what, c := range map[string]struct {
		r        *caproot.Root
		target   string
		lockPath string
		err      error
	}{
		"empty":                {r, "", "", caproot.ErrName},
		"the root":             {r, ".", "", caproot.ErrName},
		"dots at the end":      {r, "a/..", "", caproot.ErrName},
		"absolute":             {r, "/etc/passwd", "", caproot.ErrEscape},
		"outside":              {r, "../target", "", caproot.ErrEscape},
		"NUL":                  {r, "a\x00b", "", caproot.ErrName},
		"absolute record":      {r, "target", "/tmp/x", caproot.ErrEscape},
		"record outside":       {r, "target", "../x", caproot.ErrEscape},
		"closed root":          {closed, "a/target", "", fs.ErrClosed},
		"link at the record":   {r, "link", "", caproot.ErrSymlink},
		"link at another name": {r, "a/target", "link.lock", caproot.ErrSymlink},
	} {
		calls := 0
		_, err := m.Acquire(deadline(t), c.r, c.target, Options{LockPath: c.lockPath, Payload: evaluated(&calls)})
		want(t, what, err, c.err)
		if calls != 0 {
			t.Errorf("%s: the payload was evaluated", what)
		}
	}
	mine := errors.New("mine")
	_, err = m.Acquire(deadline(t), r, "a/target", Options{Payload: func(context.Context) (any, error) { return nil, mine }})
	if err != mine {
		t.Errorf("error of the payload came back as %v", err)
	}
	_, err = m.Acquire(deadline(t), r, "a/target", Options{Payload: func(context.Context) (any, error) { return func() {}, nil }})
	if err == nil {
		t.Error("a payload that is no JSON was accepted")
	}
	big := func(context.Context) (any, error) { return strings.Repeat("x", MaxRecordBytes), nil }
	_, err = m.Acquire(deadline(t), r, "a/target", Options{Payload: big})
	want(t, "too large", err, ErrTooLarge)
	_, err = m.AcquirePath(deadline(t), dir+"/b/target", Options{Payload: big})
	want(t, "too large by path", err, ErrTooLarge)
	wantNames(t, dir, "link.lock")
}

// Without one of the rights that a lock needs nothing happens.
func TestRights(t *testing.T) {
	for right, o := range map[caproot.Rights]Options{
		caproot.Read: {}, caproot.List: {}, caproot.Create: {}, caproot.Remove: {},
		caproot.Move: {KeepRecord: true}, caproot.Modify: {Fair: true}, caproot.Mkdir: {LockPath: "a/b/lock"},
	} {
		dir := t.TempDir()
		p := caproot.Workspace()
		p.Rights &^= right
		r, err := caproot.Open(dir, p)
		must(t, err)
		_, err = NewManager(t.Name()).Acquire(deadline(t), r, "target", o)
		want(t, fmt.Sprintf("without right %b", right), err, caproot.ErrPolicy)
		want(t, "as permission", err, fs.ErrPermission)
		wantNames(t, dir)
		must(t, r.Close())
	}
}

// The complete record counts, with its lines, against both limits.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	const lines = 1 + witnessLine + 1 + tokenLine + 1
	of := func(n int) Options {
		return Options{Payload: func(context.Context) (any, error) { return strings.Repeat("x", n-lines-2), nil }}
	}
	l, err := m.Acquire(deadline(t), r, "target", of(MaxRecordBytes))
	must(t, err)
	info, err := os.Stat(dir + "/target.lock")
	must(t, err)
	if info.Size() != MaxRecordBytes {
		t.Errorf("record of %d bytes", info.Size())
	}
	_, err = NewManager(t.Name()+"2").TryAcquire(deadline(t), r, "target", Options{})
	want(t, "contender of a full record", err, ErrBusy)
	must(t, l.Verify(context.Background()))
	must(t, l.Release())
	_, err = m.Acquire(deadline(t), r, "target", of(MaxRecordBytes+1))
	want(t, "one byte more", err, ErrTooLarge)
	p := caproot.Workspace()
	p.MaxWriteBytes = 1000
	small, err := caproot.Open(dir, p)
	must(t, err)
	defer small.Close()
	_, err = m.Acquire(deadline(t), small, "target", of(1001))
	want(t, "more than the policy allows", err, ErrTooLarge)
	l, err = m.Acquire(deadline(t), small, "target", of(1000))
	must(t, err)
	must(t, l.Release())
	wantNames(t, dir)
}

// The payload is evaluated for each attempt, and the record is of the last.
func TestPayloadPerAttempt(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	plant(t, dir+"/target.lock", peerRecord(t, fields{"pid": 1}), 0)
	calls := 0
	o := Options{Payload: evaluated(&calls), Retry: Retry{Attempts: 4, Min: 1, Max: 1}}
	_, err := m.Acquire(deadline(t), r, "target", o)
	want(t, "acquire", err, ErrBusy)
	if calls != 4 {
		t.Errorf("%d calls in 4 attempts", calls)
	}
	must(t, os.Remove(dir+"/target.lock"))
	l, err := m.Acquire(deadline(t), r, "a/target", o)
	must(t, err)
	record, err := os.ReadFile(dir + "/a/target.lock")
	must(t, err)
	if !bytes.HasPrefix(record, []byte("{\n  \"n\": 5\n}\n")) || calls != 5 {
		t.Errorf("record %q after %d calls", record, calls)
	}
	must(t, l.Release())
}

// A callback that panics leaves nothing behind and keeps nobody out.
func TestPanic(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	before := openFDs(t)
	for what, o := range map[string]Options{
		"payload":  {Payload: func(context.Context) (any, error) { panic("payload") }},
		"approval": {StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: func(StaleRecord) (bool, error) { panic("approval") }},
	} {
		plant(t, dir+"/target.lock", peerRecord(t, fields{}), time.Hour)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic was swallowed", what)
				}
			}()
			m.Acquire(deadline(t), r, "target", o)
		}()
		wantNames(t, dir, "target.lock")
		must(t, os.Remove(dir+"/target.lock"))
		l, err := m.TryAcquire(deadline(t), r, "target", Options{})
		must(t, err)
		must(t, l.Release())
	}
	if after := openFDs(t); after != before {
		t.Errorf("descriptors: %d before, %d after", before, after)
	}
}

// One target is one key, whatever the path of the record; and one record
// excludes, whatever the targets.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/d", 0o755))
	must(t, os.Symlink("f", dir+"/d/link"))
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	l, err := m.Acquire(ctx, r, "d/target", Options{LockPath: "locks/one"})
	must(t, err)
	_, err = m.TryAcquire(ctx, r, "d/target", Options{LockPath: "locks/two"})
	want(t, "another record for the target", err, ErrBusy)
	_, err = m.TryAcquire(ctx, r, "d/target", Options{})
	want(t, "the record beside the target", err, ErrBusy)
	_, err = m.TryAcquire(ctx, r, "else", Options{LockPath: "locks/one"})
	want(t, "another target for the record", err, ErrBusy)
	other, err := NewManager(t.Name()+"2").TryAcquire(ctx, r, "d/target", Options{LockPath: "locks/two"})
	must(t, err)
	must(t, other.Release())
	must(t, l.Release())

	// The last link of a target is not followed: it has a lock of its own.
	l, err = m.Acquire(ctx, r, "d/link", Options{})
	must(t, err)
	wantNames(t, dir+"/d", "link", "link.lock")
	f, err := m.TryAcquire(ctx, r, "d/f", Options{})
	must(t, err)
	must(t, f.Release())
	must(t, l.Release())

	// A target that is missing or outside, with a record inside.
	for _, target := range []string{"no/such/dir/target", "../outside", dir + "/absolute"} {
		l, err := m.Acquire(ctx, r, target, Options{LockPath: "locks/x"})
		must(t, err)
		_, err = m.TryAcquire(ctx, r, target, Options{LockPath: "locks/y"})
		want(t, target, err, ErrBusy)
		must(t, l.Release())
	}
	wantNames(t, dir, "d", "locks")
	wantNames(t, dir+"/locks")
}

// AcquirePath makes the target's parents, not those of an explicit record, and
// a relative path means what it meant at the call.
func TestAcquirePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	m, ctx := NewManager(t.Name()), deadline(t)
	l, err := m.AcquirePath(ctx, "a/b/target", Options{})
	must(t, err)
	wantNames(t, dir+"/a/b", "target.lock")
	must(t, os.Symlink("b", dir+"/a/alias"))
	t.Chdir("/")
	_, err = m.TryAcquirePath(ctx, dir+"/a/alias/target", Options{})
	want(t, "by a link in the path", err, ErrBusy)
	r := openRoot(t, dir)
	_, err = m.TryAcquire(ctx, r, "a/b/target", Options{})
	want(t, "by a root", err, ErrBusy)
	must(t, l.Release())
	wantNames(t, dir+"/a/b")
	_, err = m.AcquirePath(ctx, dir+"/a/b/target", Options{LockPath: dir + "/none/lock"})
	want(t, "missing parent of the record", err, fs.ErrNotExist)
	l, err = m.AcquirePath(ctx, dir+"/none/target", Options{LockPath: dir + "/a/lock"})
	must(t, err)
	_, err = m.TryAcquirePath(ctx, dir+"/none/target", Options{LockPath: dir + "/a/other"})
	want(t, "another record", err, ErrBusy)
	must(t, l.Release())
	wantNames(t, dir, "a")
	// ".." behind a link is the parent of where it leads.
	must(t, os.MkdirAll(dir+"/far/away", 0o755))
	must(t, os.Symlink(dir+"/far/away", dir+"/a/far"))
	l, err = m.AcquirePath(ctx, dir+"/a/far/../target", Options{})
	must(t, err)
	wantNames(t, dir+"/far", "away", "target.lock")
	must(t, l.Release())
	for _, bad := range []string{"", "/", dir + "/..", dir + "/a/."} {
		_, err = m.AcquirePath(ctx, bad, Options{})
		want(t, bad, err, caproot.ErrName)
	}
	before := openFDs(t)
	for range 10 {
		l, err := m.AcquirePath(ctx, dir+"/a/target", Options{})
		must(t, err)
		_, err = m.TryAcquirePath(ctx, dir+"/a/target", Options{})
		want(t, "second", err, ErrBusy)
		must(t, l.Release())
	}
	if after := openFDs(t); after != before {
		t.Errorf("descriptors: %d before, %d after", before, after)
	}
}

func openFDs(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}

// What a call gives wins over the defaults, zero included where Set says so.
func TestDefaults(t *testing.T) {
	d := Options{
		Owner: "d", StaleAfter: time.Hour, StaleRecovery: RemoveIfUnchanged, Retry: Retry{Attempts: 2, Min: 3}, Metadata: "d",
		RetainOnExit: true, CheckInterval: time.Second, Rank: 3, Fair: true, Durable: true, KeepRecord: true,
		Payload: func(context.Context) (any, error) { return nil, nil }, OnCompromised: func(error) {},
		Parse: func([]byte) (any, error) { return nil, nil }, ShouldReclaim: func(StaleRecord) (bool, error) { return false, nil },
		ShouldRemoveStale: func(StaleRecord) (bool, error) { return true, nil }, LockPath: "never taken",
	}
	got := Options{}.over(&d)
	if got.LockPath != "" || got.ShouldRemoveStale != nil {
		t.Error("the record's path and the approval come from defaults")
	}
	if got.Owner != "d" || got.StaleAfter != time.Hour || got.StaleRecovery != RemoveIfUnchanged || got.Retry != d.Retry ||
		got.Metadata != "d" || !got.RetainOnExit || got.CheckInterval != time.Second || got.Rank != 3 || !got.Fair || !got.Durable ||
		!got.KeepRecord || got.Payload == nil || got.OnCompromised == nil || got.Parse == nil || got.ShouldReclaim == nil {
		t.Errorf("defaults not taken: %+v", got)
	}
	const every = ^Fields(0)
	got = Options{Set: every}.over(&d)
	if got.Owner != "" || got.StaleAfter != 0 || got.StaleRecovery != FailClosed || got.Retry != (Retry{}) || got.Metadata != nil ||
		got.RetainOnExit || got.CheckInterval != 0 || got.Rank != 0 || got.Fair || got.Durable || got.KeepRecord ||
		got.Payload != nil || got.OnCompromised != nil || got.Parse != nil || got.ShouldReclaim != nil {
		t.Errorf("explicit zeros do not win: %+v", got)
	}
	got = Options{Retry: Retry{Max: 5}}.over(&d)
	if got.Retry != (Retry{Max: 5}) {
		t.Errorf("a Retry is not replaced as a whole: %+v", got.Retry)
	}
}

// The pace of attempts: a factor that overflows stays within Max.
func TestDelay(t *testing.T) {
	for what, c := range map[string]struct {
		r     Retry
		tries int
		least time.Duration
		most  time.Duration
	}{
		"defaults":       {Retry{}, 1, 50 * time.Millisecond, 50 * time.Millisecond},
		"grows":          {Retry{Min: 10, Max: 100, Factor: 2}, 3, 40, 40},
		"bounded":        {Retry{Min: 10, Max: 100, Factor: 2}, 9, 100, 100},
		"overflow":       {Retry{Min: 10, Max: 100, Factor: 1e300}, 1 << 30, 100, 100},
		"jitter":         {Retry{Min: 10, Max: 100, Jitter: true}, 1, 10, 20},
		"bounded jitter": {Retry{Min: 100, Max: 100, Jitter: true}, 1, 100, 100},
	} {
		o := Options{Retry: c.r}
		must(t, o.complete())
		a := acquisition{request: &request{o: o}, tries: c.tries}
		if d := a.delay(); d < c.least || d > c.most {
			t.Errorf("%s: %v", what, d)
		}
	}
}
