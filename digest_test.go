package caproot

import (
	"os"
	"testing"
)

// A change in place keeps identity and size; the digest tells it.
func TestDigestTellsChangeInPlace(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		receipt, err := r.Put("g", []byte("one"), PutOptions{Digest: true})
		must(t, err)
		must(t, os.WriteFile(base+"/root/g", []byte("two"), 0o600))
		want(t, "Check", r.Check(receipt), ErrChanged)
		want(t, "RemoveIf", r.RemoveIf("g", receipt), ErrChanged)
		_, err = r.Put("g", []byte("six"), PutOptions{IfMatch: &receipt})
		want(t, "IfMatch", err, ErrChanged)
		_, err = r.Move("g", "h", MoveOptions{IfMatch: &receipt})
		want(t, "Move", err, ErrChanged)
		if data, _ := os.ReadFile(base + "/root/g"); string(data) != "two" {
			t.Errorf("content %q", data)
		}
	})
}
