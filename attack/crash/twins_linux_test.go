package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot/state"
)

// twins are the works as they are written without caproot, and what is seen of
// each. The checks are those of the works.
func twins() []*work {
	return append([]*work{
		naive(putWork(), "os.WriteFile", func(s *scene, v int64) error { return os.WriteFile(s.path("target"), version{v}.encode(), 0o644) }),
		naive(putWork(), "remove, then write", func(s *scene, v int64) error {
			os.Remove(s.path("target"))
			return os.WriteFile(s.path("target"), version{v}.encode(), 0o644)
		}),
		naive(putWork(), "temporary file, not swept", func(s *scene, v int64) error { return byTemp(s, "target", v) }),
		naive(batchWork(), "files one by one, the last first", func(s *scene, v int64) error {
			for i := batchFiles - 1; i >= 0; i-- {
				if err := byTemp(s, fmt.Sprint("b", i), v); err != nil {
					return err
				}
			}
			return nil
		}),
		rename(acrossWork("file", copyThenRemove), "copy, then remove"),
		rename(sectionWork("", byFile), "file that is a lock"),
		rename(sectionWork("", func(context.Context, *scene) (uint64, func() error, error) {
			return 0, func() error { return nil }, nil
		}), "no lock"),
	}, stateTwin())
}

func rename(w *work, name string) *work {
	w.name = name
	return w
}

// naive makes version v after version v in its own way.
func naive(w *work, name string, make func(s *scene, v int64) error) *work {
	w.name, w.lacks = name, nil
	step := func(s *scene) error {
		v := s.done[victim].Load() + 1
		err := make(s, v)
		if err == nil {
			s.done[victim].Store(v)
		}
		return err
	}
	w.live = func(s *scene) error {
		return s.forever(func() error { return step(s) })
	}
	w.restore = step
	return w
}

func byTemp(s *scene, name string, v int64) error {
	f, err := os.CreateTemp(s.path(""), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(version{v}.encode())
	return errors.Join(err, f.Close(), os.Rename(f.Name(), s.path(name)))
}

// byFile is a lock that nobody takes from a dead holder.
func byFile(ctx context.Context, s *scene) (uint64, func() error, error) {
	for {
		f, err := os.OpenFile(s.path("t.lock"), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			f.Close()
			return 0, func() error { return os.Remove(s.path("t.lock")) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, nil, err
		}
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
}

// stateTwin writes whole files and locks nothing.
func stateTwin() *work {
	add := func(s *scene, see func(version) error) error {
		var v version
		data, err := os.ReadFile(s.path("state.json"))
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if see != nil {
			if err := see(v); err != nil {
				return err
			}
		}
		v[s.seat]++
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		temp := s.path(fmt.Sprint("state.json.", s.seat))
		if err := errors.Join(os.WriteFile(temp, text, 0o644), os.Rename(temp, s.path("state.json"))); err != nil {
			return err
		}
		s.done[s.seat].Add(1)
		return nil
	}
	w := rename(stateWork("", state.Options{}), "state without a lock")
	w.live = func(s *scene) error {
		return s.forever(func() error { return add(s, nil) })
	}
	w.restore = func(s *scene) error { return add(s, s.agrees) }
	return w
}

// caught is what the campaign has to see of a twin.
var caught = map[string]string{
	"os.WriteFile":                     errTorn.Error(),
	"remove, then write":               "and", // torn, or missing
	"temporary file, not swept":        ".tmp-",
	"files one by one, the last first": "and the one before it",
	"copy, then remove":                "new name: " + errTorn.Error(),
	"file that is a lock":              "not restored: " + context.DeadlineExceeded.Error(),
	"no lock":                          "two in the section",
	"state without a lock":             "lost update",
}

// What people write instead is caught.
func TestTwinsAreCaught(t *testing.T) {
	for _, w := range twins() {
		t.Run(w.name, func(t *testing.T) {
			s := newScene(t)
			s.limit = 300 * time.Millisecond
			for total := 0; total < 1000; {
				r := w.campaign(t, s, 1)
				w.prepare = nil // done
				total += r.kills
				for _, what := range r.violations {
					if strings.Contains(what, caught[w.name]) {
						t.Logf("caught after %d kills: %s", total, what)
						return
					}
				}
			}
			t.Error("not caught")
		})
	}
}
