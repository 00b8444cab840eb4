package fuzz_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/caproot/caproot/internal/nt"
	"github.com/caproot/caproot/pathsafe"
)

// What a hostile file system or server says of a directory is refused or is a list of
// names that each lead into it.
func FuzzEntries(f *testing.F) {
	seed := make([]byte, 128)
	binary.LittleEndian.PutUint32(seed[60:], 4)
	copy(seed[nt.NameInFullDir:], "a\x00b\x00")
	copy(seed[nt.NameInIDBothDir:], "c\x00\\\x00")
	f.Add(seed, true)
	f.Add(seed, false)
	f.Fuzz(func(t *testing.T, buf []byte, full bool) {
		at := nt.NameInIDBothDir
		if full {
			at = nt.NameInFullDir
		}
		entries, err := nt.Entries(buf, at)
		if err != nil && entries != nil {
			t.Errorf("%v with %d entries", err, len(entries))
		}
		if len(entries) > len(buf)/at {
			t.Errorf("%d entries in %d bytes", len(entries), len(buf))
		}
		for _, e := range entries {
			if !nt.IsComponent(e.Name) {
				t.Errorf("entry %q", e.Name)
			}
		}
	})
}

// The target of a hostile link is refused, or a text that a new link with the same
// text has; what Windows takes for absolute is never relative in it.
func FuzzLinkTarget(f *testing.F) {
	for _, target := range []string{`dir\file`, `..\up`, `C:\abs`, `\\server\share`, `\\?\Volume{1}\`, `\rooted`} {
		data, err := nt.LinkData(target)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		junction := append(data[:16:16], data[20:]...)
		binary.LittleEndian.PutUint32(junction, nt.TagMountPoint)
		binary.LittleEndian.PutUint16(junction[4:], uint16(len(junction)-8))
		f.Add(junction)
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		target, err := nt.LinkTarget(buf)
		if err != nil {
			return
		}
		if target == "" || strings.ContainsRune(target, 0) {
			t.Fatalf("target %q", target)
		}
		tag := binary.LittleEndian.Uint32(buf)
		absolute, err := pathsafe.Target(target, pathsafe.Windows)
		relative := tag == nt.TagSymlink && binary.LittleEndian.Uint32(buf[16:])&1 != 0
		if err == nil && !relative && !absolute {
			t.Errorf("%q is absolute for Windows", target)
		}
		data, err := nt.LinkData(target)
		if err != nil {
			return
		}
		again, err := nt.LinkTarget(data)
		if err != nil || again != strings.ReplaceAll(target, "/", `\`) && !strings.HasPrefix(target, `\`) {
			t.Errorf("%q comes back as %q, %v", target, again, err)
		}
	})
}
