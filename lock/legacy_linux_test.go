package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// peerRecord is a record as the fs-safe package writes it.
func peerRecord(t testing.TB, payload any) []byte {
	t.Helper()
	text, err := encodePayload(payload)
	must(t, err)
	return appendRecord(text, nil, newToken())
}

func plant(t testing.TB, path string, record []byte, age time.Duration) {
	t.Helper()
	must(t, os.WriteFile(path, record, 0o600))
	then := time.Now().Add(-age)
	must(t, os.Chtimes(path, then, then))
}

// soon ends a wait that is expected to be in vain.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// wantFile checks that a file is still what it was.
func wantFile(t testing.TB, path string, content []byte) {
	t.Helper()
	now, err := os.ReadFile(path)
	if err != nil || string(now) != string(content) {
		t.Errorf("%s is %q (%v), was %q", path, now, err, content)
	}
}

type fields map[string]any

// cases 113, 114, 115, 116, 117, 118: what a peer's payload says of its process is no evidence,
// neither of life nor of death, be it this process's own id; createdAt decides
// where it is valid, the time of modification where not, and the future is fresh.
func TestPeerAge(t *testing.T) {
	now := time.Now().UTC()
	ago := func(d time.Duration) string { return now.Add(-d).Format("2006-01-02T15:04:05.000Z") }
	const hour = time.Hour
	for what, c := range map[string]struct {
		payload any
		mtime   time.Duration // age
		stale   bool
	}{
		"old by both":                    {fields{"createdAt": ago(hour)}, hour, true},
		"fresh createdAt, old mtime":     {fields{"createdAt": ago(0)}, hour, false},
		"future createdAt, mtime 1970":   {fields{"createdAt": ago(-hour)}, time.Since(time.Unix(0, 0)), false},
		"old createdAt, fresh mtime":     {fields{"createdAt": ago(hour)}, 0, true},
		"old createdAt, future mtime":    {fields{"createdAt": ago(hour)}, -hour, true},
		"no createdAt, old mtime":        {fields{"pid": 1}, hour, true},
		"no createdAt, fresh mtime":      {fields{"pid": 1}, 0, false},
		"no createdAt, future mtime":     {fields{"pid": 1}, -5 * time.Minute, false},
		"empty createdAt, old mtime":     {fields{"createdAt": ""}, hour, true},
		"numeric createdAt, old mtime":   {fields{"createdAt": now.UnixMilli()}, hour, true},
		"words for createdAt, old mtime": {fields{"createdAt": "yesterday"}, hour, true},
		"another case of createdAt":      {fields{"createdat": ago(0)}, hour, true},
		"a form that only peers read":    {fields{"createdAt": "Tue Mar 1 2022 10:00"}, hour, false},
		"offset and 9 digits":            {fields{"createdAt": "2022-03-01T10:00:00.123456789+01:00"}, 0, true},
		"payload is no object":           {[]int{1}, hour, true},
		"dead pid, fresh":                {fields{"pid": 1 << 22, "createdAt": ago(0)}, hour, false},
		"live pid, old":                  {fields{"pid": os.Getppid(), "createdAt": ago(hour)}, 0, true},
		"own pid, fresh":                 {fields{"pid": os.Getpid(), "createdAt": ago(0)}, 0, false},
		"own pid, old":                   {fields{"pid": os.Getpid(), "createdAt": ago(hour)}, 0, true},
		"dead pid of another host":       {fields{"pid": 1 << 22, "host": "elsewhere"}, 0, false},
		"another boot":                   {fields{"pid": 1, "bootId": "b"}, 0, false},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			record := peerRecord(t, c.payload)
			plant(t, dir+"/target.lock", record, c.mtime)
			_, err := NewManager(t.Name()).TryAcquire(context.Background(), openRoot(t, dir), "target", Options{})
			if c.stale {
				want(t, "acquire", err, ErrStale)
			} else {
				want(t, "acquire", err, ErrBusy)
			}
			wantFile(t, dir+"/target.lock", record)
			wantNames(t, dir, "target.lock")
		})
	}
}

// case 118: the limit is a rule that can be turned off, and made the caller's own.
func TestStaleRules(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	record := peerRecord(t, fields{"pid": 1})
	plant(t, dir+"/target.lock", record, time.Hour)
	_, err := m.TryAcquire(soon(t), r, "target", Options{StaleAfter: Never})
	want(t, "Never", err, ErrBusy)
	_, err = m.TryAcquire(soon(t), r, "target", Options{StaleAfter: 2 * time.Hour})
	want(t, "two hours", err, ErrBusy)
	_, err = m.WithDefaults(Options{StaleAfter: Never}).TryAcquire(soon(t), r, "target", Options{Set: SetStaleAfter})
	want(t, "zero over a default", err, ErrStale)
	var asked StaleRecord
	_, err = m.TryAcquire(soon(t), r, "target", Options{ShouldReclaim: func(s StaleRecord) (bool, error) {
		asked = s
		return false, nil
	}})
	want(t, "by the caller's rule", err, ErrBusy)
	if asked.LockPath != "target.lock" || asked.Target != "target" || string(asked.Raw) != string(record) ||
		asked.StaleAfter != defaultStaleAfter || asked.HeldByThisProcess || asked.Now.IsZero() || asked.Payload == nil {
		t.Errorf("asked about %+v", asked)
	}
	mine := errors.New("mine")
	_, err = m.TryAcquire(soon(t), r, "target", Options{ShouldReclaim: func(StaleRecord) (bool, error) { return false, mine }})
	if err != mine {
		t.Errorf("error of the callback came back as %v", err)
	}
	_, err = m.TryAcquire(soon(t), r, "target", Options{Parse: func([]byte) (any, error) { return nil, mine }})
	if err != mine {
		t.Errorf("error of the parser came back as %v", err)
	}
	wantFile(t, dir+"/target.lock", record)
}

// Removal of a stale record takes the recovery option and an approval of the
// call; a default of one is not the other.
func TestStaleApproval(t *testing.T) {
	yes := func(StaleRecord) (bool, error) { return true, nil }
	no := func(StaleRecord) (bool, error) { return false, nil }
	mine := errors.New("mine")
	gone := func(StaleRecord) (bool, error) { return false, fs.ErrNotExist }
	for what, c := range map[string]struct {
		defaults, o Options
		err         error
	}{
		"approved":                 {Options{}, Options{StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: yes}, nil},
		"not approved":             {Options{}, Options{StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: no}, ErrStale},
		"nobody to approve":        {Options{}, Options{StaleRecovery: RemoveIfUnchanged}, ErrStale},
		"approval without option":  {Options{}, Options{ShouldRemoveStale: yes}, ErrStale},
		"option by default":        {Options{StaleRecovery: RemoveIfUnchanged}, Options{ShouldRemoveStale: yes}, nil},
		"approval only by default": {Options{StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: yes}, Options{}, ErrStale},
		"default turned off": {
			Options{StaleRecovery: RemoveIfUnchanged}, Options{ShouldRemoveStale: yes, Set: SetStaleRecovery}, ErrStale,
		},
		"callback fails": {
			Options{}, Options{StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: func(StaleRecord) (bool, error) { return true, mine }}, mine,
		},
		"callback fails with absence": {Options{}, Options{StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: gone}, fs.ErrNotExist},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			record := peerRecord(t, fields{"pid": 1})
			plant(t, dir+"/target.lock", record, time.Hour)
			l, err := NewManager(t.Name()).WithDefaults(c.defaults).Acquire(deadline(t), openRoot(t, dir), "target", c.o)
			if c.err != nil {
				want(t, "acquire", err, c.err)
				wantFile(t, dir+"/target.lock", record)
				wantNames(t, dir, "target.lock")
				return
			}
			must(t, err)
			must(t, l.Release())
			wantNames(t, dir)
		})
	}
}

// cases 107, 108, 109: what has the name after the verdict is not what was
// judged, with equal size, time and even bytes; it stays, and so does its peer.
func TestReplacedWhileJudged(t *testing.T) {
	record := peerRecord(t, fields{"pid": 1})
	for what, c := range map[string]struct {
		attack func(t *testing.T, path string)
		err    error
	}{
		"equal copy": {func(t *testing.T, path string) {
			plant(t, path+".new", record, time.Hour)
			must(t, os.Rename(path+".new", path))
		}, ErrStale},
		"new record of equal size": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			plant(t, path, peerRecord(t, fields{"pid": 2}), 0)
		}, ErrBusy},
		"rewritten in place": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, peerRecord(t, fields{"pid": 3}), 0o600))
		}, ErrBusy},
		"second name": {func(t *testing.T, path string) { must(t, os.Link(path, path+".second")) }, ErrRecord},
		"link":        {func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Symlink("x", path)) }, ErrRecord},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			path := dir + "/target.lock"
			plant(t, path, record, time.Hour)
			asked, left := 0, ""
			o := Options{StaleRecovery: RemoveIfUnchanged, Retry: Retry{Min: time.Millisecond, Max: time.Millisecond},
				ShouldRemoveStale: func(StaleRecord) (bool, error) {
					if !exists(t, path+".reclaim") {
						t.Error("asked without the guard")
					}
					if asked++; asked > 1 {
						return false, nil
					}
					c.attack(t, path)
					left = fmt.Sprint(identify(t, path))
					return true, nil
				}}
			_, err := NewManager(t.Name()).Acquire(soon(t), openRoot(t, dir), "target", o)
			want(t, "acquire", err, c.err)
			if now := fmt.Sprint(identify(t, path)); now != left {
				t.Errorf("record is %s, was %s", now, left)
			}
			if exists(t, path+".reclaim") {
				t.Error("the guard was left")
			}
		})
	}
}

func identify(t testing.TB, path string) (uint64, uint32) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Ino, st.Mode
}

// case 107: many contenders of one stale record, and one winner at a time.
func TestReclaimRace(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	yes := func(StaleRecord) (bool, error) { return true, nil }
	for round := range 50 {
		plant(t, dir+"/target.lock", peerRecord(t, fields{"pid": round}), time.Hour)
		var all sync.WaitGroup
		inside, most := 0, 0 // guarded by the lock
		for i := range 8 {
			m := NewManager(fmt.Sprint(t.Name(), i))
			all.Go(func() {
				err := m.With(deadline(t), r, "target", Options{StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: yes},
					func(context.Context) error {
						inside++
						most = max(most, inside)
						inside--
						return nil
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 1 {
			t.Fatalf("%d inside at once", most)
		}
		wantNames(t, dir)
	}
}

// cases 111, 112: a guard of a peer, in either of its forms, is waited for,
// named in the error, and never removed.
func TestPeerGuard(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
		"file":          func(path string) error { return os.WriteFile(path, peerRecord(t, fields{"pid": 1}), 0o600) },
		"empty file":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"dangling link": func(path string) error { return os.Symlink("nowhere", path) },
		"FIFO":          func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			guard := dir + "/target.lock.reclaim"
			must(t, make(guard))
			then := time.Now().Add(-time.Hour)
			must(t, unix.Lutimes(guard, []unix.Timeval{unix.NsecToTimeval(then.UnixNano()), unix.NsecToTimeval(then.UnixNano())}))
			r, m := openRoot(t, dir), NewManager(t.Name())
			_, err := m.Acquire(soon(t), r, "target", Options{})
			want(t, "acquire", err, ErrBusy)
			want(t, "acquire", err, context.DeadlineExceeded)
			var busy *BusyError
			if !errors.As(err, &busy) || !busy.Guard {
				t.Errorf("error does not name the guard: %v", err)
			}
			wantNames(t, dir, "target.lock.reclaim")
			// It goes, and the wait is over.
			got := acquireLater(t, m, r)
			must(t, os.Remove(guard))
			must(t, <-got)
			wantNames(t, dir)
		})
	}
}

// acquireLater acquires and releases on a goroutine of its own.
func acquireLater(t testing.TB, m *Manager, r *caproot.Root) <-chan error {
	got := make(chan error, 1)
	ctx := deadline(t)
	go func() {
		l, err := m.Acquire(ctx, r, "target", Options{Retry: Retry{Min: time.Minute, Max: time.Minute}})
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	return got
}

// The watch ends a wait for a peer, whatever the pace of the polls: here it is
// longer than the deadline.
func TestPeerReleases(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	for what, end := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, dir+"/away") },
	} {
		plant(t, dir+"/target.lock", peerRecord(t, fields{"pid": 1}), 0)
		got := acquireLater(t, m, r)
		for ctx := deadline(t); m.watching() == 0 && ctx.Err() == nil; {
		}
		must(t, end(dir+"/target.lock"))
		if err := <-got; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantNames(t, dir, "away")
}

// watching counts the acquisitions at the front of a line.
func (m *Manager) watching() int {
	m.domain().mu.Lock()
	defer m.domain().mu.Unlock()
	return len(m.domain().lines)
}
