package etcdlock

import (
	"errors"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// TestFencedRoot is cases 153 and 154 for tokens of the cluster.
func TestFencedRoot(t *testing.T) {
	client := startServer(t).connect()
	root, err := caproot.Open(t.TempDir(), caproot.Workspace())
	must(t, err)
	defer root.Close()
	fenced := func(token uint64) *caproot.Root {
		fence, err := lock.FenceAt(t.Context(), root, "data", token)
		must(t, err)
		t.Cleanup(func() { fence.Close() })
		sub, err := root.Fenced(fence)
		must(t, err)
		t.Cleanup(func() { sub.Close() })
		return sub
	}
	first, err := Acquire(t.Context(), client, "data", Options{TTL: forever})
	must(t, err)
	early := fenced(first.Token())
	_, err = early.Put("data", []byte("first"), caproot.PutOptions{})
	must(t, err)
	// The cluster takes the lock away, and the first holder does not look.
	_, err = client.Revoke(t.Context(), first.seat.lease)
	must(t, err)
	second, err := Acquire(t.Context(), client, "data", Options{TTL: forever})
	must(t, err)
	defer second.Release()
	late := fenced(second.Token())
	if _, err := early.Put("data", []byte("late"), caproot.PutOptions{}); !errors.Is(err, lock.ErrFenced) {
		t.Errorf("the first holder's write: %v", err)
	}
	if _, err := lock.FenceAt(t.Context(), root, "data", first.Token()); !errors.Is(err, lock.ErrFenced) {
		t.Errorf("a fence for the first token: %v", err)
	}
	_, err = late.Put("data", []byte("second"), caproot.PutOptions{})
	must(t, err)
	data, err := root.ReadFile("data")
	if err != nil || string(data) != "second" {
		t.Fatalf("%q, %v", data, err)
	}
	if err := first.Release(); !errors.Is(err, lock.ErrLeaseLost) {
		t.Errorf("Release: %v", err)
	}
}
