//go:build linux || darwin || freebsd

package caproot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func dirent(number uint64, name string) []byte {
	b := make([]byte, (int(nameAt)+len(name)+1+7)/8*8)
	binary.NativeEndian.PutUint64(b, number)
	binary.NativeEndian.PutUint16(b[reclenAt:], uint16(len(b)))
	b[typeAt] = unix.DT_REG
	copy(b[nameAt:], name)
	return b
}

func namesOf(entries []direntry) (all []string) {
	for _, e := range entries {
		all = append(all, e.name)
	}
	return all
}

// A listing is what a file system of anybody's may have made up.
func TestDirents(t *testing.T) {
	whole := slices.Concat(dirent(1, "."), dirent(2, ".."), dirent(3, "a"), dirent(0, "vacant"), dirent(4, "long name of a file"))
	want := []string{"a", "vacant", "long name of a file"}
	if vacantIsZero {
		want = slices.Delete(want, 1, 2)
	}
	got, err := dirents(whole)
	if err != nil || !slices.Equal(namesOf(got), want) {
		t.Errorf("%q, %v", namesOf(got), err)
	}
	for n := 1; n < len(whole); n++ {
		got, err := dirents(whole[:n:n])
		if err == nil && len(got) == len(want) {
			t.Errorf("cut to %d bytes: %q", n, namesOf(got))
		}
	}
	for what, buf := range map[string][]byte{
		"no name":  dirent(1, ""),
		"way out":  dirent(1, "../x"),
		"below":    dirent(1, "a/b"),
		"no space": func() []byte { b := dirent(1, "a"); binary.NativeEndian.PutUint16(b[reclenAt:], 8); return b }(),
		"endless":  func() []byte { b := dirent(1, "a"); binary.NativeEndian.PutUint16(b[reclenAt:], 0); return b }(),
		"too long": func() []byte { b := dirent(1, "a"); binary.NativeEndian.PutUint16(b[reclenAt:], 4096); return b }(),
	} {
		if got, err := dirents(buf); err != syscall.EIO {
			t.Errorf("%s: %q, %v", what, namesOf(got), err)
		}
	}
}

// What macOS lists in parts by passing over a number of entries is listed whole:
// entries that are removed between two parts hide no others (case 169).
func TestListingWhole(t *testing.T) {
	const record = 64
	var all [][]byte
	for i := range 500 {
		all = append(all, dirent(uint64(i+1), fmt.Sprintf("f%03d", i)))
	}
	skip := 0
	fill := func(buf []byte) (n int, err error) {
		left := all[min(skip, len(all)):]
		for _, d := range left {
			if n+len(d) > len(buf) {
				break
			}
			n += copy(buf[n:], d)
			skip++
		}
		return n, nil
	}
	rewind := func() error {
		skip = 0
		all = all[1:] // a peer removes one meanwhile
		return nil
	}
	listing, err := growing(make([]byte, 1024), record, 1<<20, fill, rewind)
	must(t, err)
	got, err := dirents(listing)
	must(t, err)
	if len(got) != len(all) || got[len(got)-1].name != "f499" {
		t.Errorf("%d of %d entries", len(got), len(all))
	}
	skip = 0
	if listing, err = growing(make([]byte, 1024), record, 2048, fill, rewind); err != nil || len(listing) > 2048 || len(listing) < 1024 {
		t.Errorf("a bounded listing has %d bytes, %v", len(listing), err)
	}
	broken := errors.New("broken")
	if _, err := growing(make([]byte, 64), record, 1<<20, fill, func() error { return broken }); err != broken {
		t.Errorf("%v", err)
	}
}
