package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// An option that means nothing is refused before a directory or a lock is made.
func TestOptionsOutOfRange(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir, caproot.Workspace())
	for what, o := range map[string]Options{
		"timeout":    {Timeout: -1},
		"durability": {Durability: caproot.DurabilityVolatile + 1},
		"bytes":      {MaxBytes: -1},
		"lock":       {Lock: lock.Options{StaleAfter: -1}},
		"fields":     {Lock: lock.Options{Set: 1 << 15}},
		"lease":      {Lease: &lock.LeaseOptions{TTL: time.Nanosecond}},
	} {
		o.Parents = true
		err := UpdateBytes(context.Background(), r, "p/x", func(context.Context, []byte) ([]byte, error) {
			t.Errorf("%s: the function was called", what)
			return nil, nil
		}, o)
		if !errors.Is(err, lock.ErrOption) || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	want(t, "fragment", PutFragment(r, "p", "x", 1, Options{MaxBytes: -1}), lock.ErrOption)
	made, err := os.ReadDir(dir)
	must(t, err)
	if len(made) != 0 {
		t.Errorf("made %v", made)
	}
}
