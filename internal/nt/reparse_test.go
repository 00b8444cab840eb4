package nt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caproot/caproot/internal/nt"
)

// Tags of MS-FSCC 2.1.2.1 and what each is taken for (case 183).
func TestKindOf(t *testing.T) {
	for tag, want := range map[uint32]nt.Kind{
		0xA000000C: nt.Link, // symbolic link
		0xA0000003: nt.Link, // junction, mounted folder

		0x80000013: nt.Content, // deduplicated
		0x80000017: nt.Content, // compressed (WOF)
		0x9000001A: nt.Content, // cloud
		0x9000601A: nt.Content, // cloud, OneDrive
		0x9000F01A: nt.Content, // cloud

		0x00000000: nt.Special, // reserved
		0x00000001: nt.Special, // reserved
		0x8000001B: nt.Special, // AppExecLink
		0xA000001D: nt.Special, // symbolic link of WSL
		0x80000023: nt.Special, // socket
		0x80000024: nt.Special, // FIFO of WSL
		0x80000025: nt.Special, // character device of WSL
		0x80000026: nt.Special, // block device of WSL
		0xA0000019: nt.Special, // GLOBAL_REPARSE
		0xA0000010: nt.Special, // reserved for IIS
		0x80000018: nt.Special, // WCI
		0xA0000027: nt.Special, // WCI link
		0x9000001C: nt.Special, // projected file system
		0xA0000022: nt.Special, // projected tombstone
		0x8000000A: nt.Special, // DFS
		0x80000014: nt.Special, // NFS
		0xC0000004: nt.Special, // HSM
		0xB000001A: nt.Special, // as cloud, but stands for another name
		0x00001234: nt.Special, // of a third party
		0x20001234: nt.Special, // the same, stands for another name
	} {
		if got := nt.KindOf(tag); got != want {
			t.Errorf("%#x is of kind %d, not %d", tag, got, want)
		}
	}
	const nameSurrogate = 1 << 29
	for low := range uint32(1 << 16) {
		for _, high := range []uint32{0xA000, 0xB000, 0x2000, 0x3000, 0xE000} {
			tag := high<<16 | low
			if tag&nameSurrogate != 0 && nt.KindOf(tag) == nt.Content {
				t.Fatalf("%#x stands for another name and is taken for content", tag)
			}
		}
	}
}

// link makes a reparse buffer of a symbolic link, or with other flags than 0 and 1
// of a junction.
func link(flags uint32, substitute string) []byte {
	text, fixed := units(substitute), 20
	tag := uint32(nt.TagSymlink)
	if flags > 1 {
		fixed, tag = 16, nt.TagMountPoint
	}
	b := make([]byte, fixed)
	little.PutUint32(b, tag)
	little.PutUint16(b[4:], uint16(fixed-8+len(text)))
	little.PutUint16(b[10:], uint16(len(text)))
	little.PutUint16(b[12:], uint16(len(text)))
	if flags <= 1 {
		little.PutUint32(b[16:], flags)
	}
	return append(b, text...)
}

const (
	absolute = 0
	relative = 1
	junction = 2
)

func TestLinkTarget(t *testing.T) {
	for _, c := range []struct {
		flags      uint32
		substitute string
		want       string
		err        error
	}{
		{relative, `dir\file`, `dir\file`, nil},
		{relative, `..\up`, `..\up`, nil},
		{relative, `\rooted`, `\rooted`, nil},
		{relative, `\??\C:\x`, `\??\C:\x`, nil}, // begins with a separator: absolute
		{absolute, `\??\C:\x`, `C:\x`, nil},
		{absolute, `\??\UNC\server\share\x`, `\\server\share\x`, nil},
		{absolute, `\??\C:x`, `\\?\C:x`, nil},
		{absolute, `\??\PIPE\x`, `\\?\PIPE\x`, nil},
		{absolute, `\??\dir`, `\\?\dir`, nil}, // not dir beside the link
		{absolute, `\Device\HarddiskVolume1\x`, `\Device\HarddiskVolume1\x`, nil},
		{absolute, `dir`, "", nt.ErrData},
		{junction, `\??\C:\outside`, `C:\outside`, nil},
		{junction, `\??\Volume{0b1d6a27-0000-0000-0000-100000000000}\`, `\\?\Volume{0b1d6a27-0000-0000-0000-100000000000}\`, nil},
		{junction, `\??\GLOBALROOT\Device\X`, `\\?\GLOBALROOT\Device\X`, nil},
		{junction, `dir`, "", nt.ErrData},
		{junction, "", "", nt.ErrData},
		{relative, "dir\x00..", "", nt.ErrData},
	} {
		got, err := nt.LinkTarget(link(c.flags, c.substitute))
		if got != c.want || err != c.err {
			t.Errorf("%d, %q: %q, %v", c.flags, c.substitute, got, err)
		}
	}
}

func TestLinkTargetOfHostileServer(t *testing.T) {
	whole := link(relative, `dir\file`)
	for n := range whole {
		if got, err := nt.LinkTarget(whole[:n]); err == nil {
			t.Errorf("cut to %d bytes: %q", n, got)
		}
	}
	for what, change := range map[string]func(b []byte){
		"text beyond the body":   func(b []byte) { little.PutUint16(b[10:], 18) },
		"text beyond everything": func(b []byte) { little.PutUint16(b[10:], 0xfffe) },
		"text from beyond":       func(b []byte) { little.PutUint16(b[8:], 0xfffe) },
		"odd start":              func(b []byte) { little.PutUint16(b[8:], 1) },
		"odd length":             func(b []byte) { little.PutUint16(b[10:], 5) },
		"body too short":         func(b []byte) { little.PutUint16(b[4:], 4) },
		"body too long":          func(b []byte) { little.PutUint16(b[4:], 0xffff) },
	} {
		b := slices.Clone(whole)
		change(b)
		if got, err := nt.LinkTarget(b); err != nt.ErrData {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	other := slices.Clone(whole)
	little.PutUint32(other, 0x8000001B)
	if _, err := nt.LinkTarget(other); err != nt.ErrNotLink {
		t.Errorf("an AppExecLink: %v", err)
	}
}

func TestLinkData(t *testing.T) {
	for _, c := range []struct{ target, want string }{
		{`dir\file`, `dir\file`},
		{"dir/file", `dir\file`},
		{`..\up`, `..\up`},
		{`\rooted`, `\rooted`},
		{`C:\abs\path`, `C:\abs\path`},
		{"C:/abs", `C:\abs`},
		{`\\server\share\x`, `\\server\share\x`},
		{"//server/share", `\\server\share`},
		{`\\?\C:\abs`, `C:\abs`},
		{`\\?\Volume{1}\x`, `\\?\Volume{1}\x`},
		{`\??\C:\abs`, `C:\abs`},
		{"half \xed\xa0\xbd of a pair 😀", "half \xed\xa0\xbd of a pair 😀"},
	} {
		data, err := nt.LinkData(c.target)
		if err != nil {
			t.Errorf("%q: %v", c.target, err)
			continue
		}
		if got, err := nt.LinkTarget(data); err != nil || got != c.want {
			t.Errorf("%q comes back as %q, %v", c.target, got, err)
		}
	}
	for _, target := range []string{"C:", "C:x", `c:..\x`} {
		if _, err := nt.LinkData(target); err != nt.ErrTarget {
			t.Errorf("%q: %v", target, err)
		}
	}
	if _, err := nt.LinkData(strings.Repeat("x", 8000)); err != nt.ErrTooLong {
		t.Errorf("a long target: %v", err)
	}
}
