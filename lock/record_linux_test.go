package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// case 119: an empty record, as is there between a peer's creation and its
// first write, is waited for; one whose maker died there is stale in time.
func TestEmptyRecord(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	plant(t, dir+"/target.lock", nil, 0)
	asked := 0
	o := Options{StaleAfter: time.Nanosecond, StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: func(s StaleRecord) (bool, error) {
		asked++
		return len(s.Raw) == 0 && s.Payload == nil, nil
	}}
	_, err := m.TryAcquire(soon(t), r, "target", o)
	want(t, "within the grace", err, ErrBusy)
	wantNames(t, dir, "target.lock")
	plant(t, dir+"/target.lock", nil, time.Hour)
	_, err = m.TryAcquire(soon(t), r, "target", Options{})
	var stale *StaleError
	if !errors.As(err, &stale) || !stale.Empty {
		t.Errorf("after the grace: %v", err)
	}
	if asked != 0 {
		t.Errorf("asked %d times", asked)
	}
	l, err := m.TryAcquire(soon(t), r, "target", o)
	must(t, err)
	must(t, l.Release())
	wantNames(t, dir)
}

// cases 121, 123, 124: what has the record's name and is no record is an error
// at once, not stale, not followed, not blocked on, and stays.
func TestNotARecord(t *testing.T) {
	for what, c := range map[string]struct {
		make func(dir, path string) error
		err  error
	}{
		"link to an old file": {func(dir, path string) error {
			plant(t, dir+"/old", peerRecord(t, fields{"pid": 1}), time.Since(time.Unix(0, 0)))
			return os.Symlink("old", path)
		}, caproot.ErrSymlink},
		"dangling link": {func(_, path string) error { return os.Symlink("missing", path) }, caproot.ErrSymlink},
		"link outside":  {func(_, path string) error { return os.Symlink("../outside", path) }, ErrRecord},
		"FIFO":          {func(_, path string) error { return unix.Mkfifo(path, 0o600) }, caproot.ErrSpecial},
		"directory":     {func(_, path string) error { return os.Mkdir(path, 0o700) }, syscall.EISDIR},
		"1 GiB": {func(_, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<30))
		}, ErrTooLarge},
		"two names": {func(dir, path string) error {
			plant(t, path, peerRecord(t, fields{"pid": 1}), time.Hour)
			return os.Link(path, dir+"/second")
		}, caproot.ErrHardlink},
	} {
		t.Run(what, func(t *testing.T) {
			base := t.TempDir()
			dir := base + "/root"
			must(t, os.Mkdir(dir, 0o755))
			must(t, c.make(dir, dir+"/target.lock"))
			before := names(t, dir)
			r, m := openRoot(t, dir), NewManager(t.Name())
			o := Options{
				StaleRecovery: RemoveIfUnchanged, ShouldRemoveStale: func(StaleRecord) (bool, error) { return true, nil },
				Retry: Retry{Min: time.Millisecond, Max: time.Millisecond},
			}
			_, err := m.Acquire(deadline(t), r, "target", o)
			want(t, "acquire", err, c.err)
			want(t, "acquire", err, ErrRecord)
			o.Payload = func(context.Context) (any, error) { return fields{}, nil }
			_, err = m.Acquire(deadline(t), r, "target", o)
			want(t, "acquire with a payload", err, c.err)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
				t.Errorf("%v matches absence or presence", err)
			}
			wantNames(t, dir, before...)
			wantNames(t, base, "root")
		})
	}
}

// case 124: a deadline that has passed, and one that passes, end the wait; the
// first still gives one attempt.
func TestDeadlines(t *testing.T) {
	dir := t.TempDir()
	r, m := openRoot(t, dir), NewManager(t.Name())
	passed, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	l, err := m.Acquire(passed, r, "target", Options{})
	must(t, err)
	must(t, l.Release())
	plant(t, dir+"/target.lock", peerRecord(t, fields{}), 0)
	_, err = m.Acquire(passed, r, "target", Options{})
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Attempts != 1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("passed deadline: %v", err)
	}
	_, err = m.Acquire(soon(t), r, "target", Options{Retry: Retry{Min: time.Hour / 2, Max: time.Hour / 2}})
	want(t, "a deadline before the next attempt", err, context.DeadlineExceeded)
	_, err = m.Acquire(context.Background(), r, "target", Options{Retry: Retry{Attempts: 3, Min: 1, Max: 1}})
	if !errors.As(err, &busy) || busy.Attempts != 3 || busy.Err != nil {
		t.Errorf("three attempts: %v", err)
	}
	cancelled, cancelWith := context.WithCancelCause(context.Background())
	mine := errors.New("mine")
	cancelWith(mine)
	if _, err = m.Acquire(cancelled, r, "other", Options{}); err != mine {
		t.Errorf("cancelled: %v", err)
	}
	wantNames(t, dir, "target.lock")
}
