package nt_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/caproot/caproot/internal/nt"
)

var little = binary.LittleEndian

func units(s string) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = little.AppendUint16(b, u)
	}
	return b
}

// record is one entry of a listing; next is where the following one begins.
func record(nameAt int, attributes, tag, next uint32, name []byte) []byte {
	b := make([]byte, nameAt, nameAt+len(name))
	little.PutUint32(b, next)
	little.PutUint32(b[56:], attributes)
	little.PutUint32(b[60:], uint32(len(name)))
	little.PutUint32(b[64:], tag)
	return append(b, name...)
}

func TestEntries(t *testing.T) {
	for _, nameAt := range []int{nt.NameInIDBothDir, nt.NameInFullDir} {
		dot := record(nameAt, 0x10, 0, uint32(nameAt+8), units("."))
		dot = append(dot, make([]byte, nameAt+8-len(dot))...)
		link := record(nameAt, 0x410, nt.TagSymlink, uint32(nameAt+12), units("lk😀"))
		link = append(link, make([]byte, nameAt+12-len(link))...)
		last := record(nameAt, 0x20, 99, 0, []byte{0x41, 0, 0x3d, 0xd8}) // "A" and half a pair
		buf := slices.Concat(dot, link, last, make([]byte, 500))
		got, err := nt.Entries(buf, nameAt)
		want := []nt.Entry{{"lk😀", 0x410, nt.TagSymlink}, {"A\xed\xa0\xbd", 0x20, 0}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("name at %d: %+v, %v", nameAt, got, err)
		}
		for n := range len(dot) + len(link) + len(last) {
			if _, err := nt.Entries(buf[:n:n], nameAt); err != nt.ErrData {
				t.Errorf("cut to %d bytes: %v", n, err)
			}
		}
	}
}

// A server or file system may send anything.
func TestEntriesOfHostileServer(t *testing.T) {
	at := nt.NameInFullDir
	for what, buf := range map[string][]byte{
		"long name":      func() []byte { b := record(at, 0, 0, 0, units("a")); little.PutUint32(b[60:], 4); return b }(),
		"endless name":   func() []byte { b := record(at, 0, 0, 0, units("a")); little.PutUint32(b[60:], 1<<32-2); return b }(),
		"odd name":       func() []byte { b := record(at, 0, 0, 0, units("a")); little.PutUint32(b[60:], 1); return b }(),
		"next into name": append(record(at, 0, 0, 4, units("a")), make([]byte, 200)...),
		"next too far":   record(at, 0, 0, 4096, units("a")),
		"no name":        record(at, 0, 0, 0, nil),
		"up and away":    record(at, 0, 0, 0, units(`..\x`)),
		"below":          record(at, 0, 0, 0, units(`a\b`)),
		"slash":          record(at, 0, 0, 0, units(`a/b`)),
		"hidden end":     record(at, 0, 0, 0, units("a\x00b")),
	} {
		if got, err := nt.Entries(buf, at); err != nt.ErrData {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestIsComponent(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a.b ": true, "...": true, "": false, ".": false, "..": false, `a\b`: false, `\`: false, "a/b": false, "a\x00": false,
	} {
		if nt.IsComponent(name) != want {
			t.Errorf("%q", name)
		}
	}
}

// FILE_RENAME_INFORMATION has 24 bytes where a pointer has 8, and 16 where it has 4.
func TestNewName(t *testing.T) {
	for _, c := range []struct {
		pointer, start int
		name           string
		size           int
	}{{8, 20, "", 24}, {8, 20, "ab", 24}, {8, 20, "abc", 26}, {4, 12, "", 16}, {4, 12, "ab", 16}, {4, 12, "é😀", 18}} {
		buf, err := nt.NewName(3, 0x12345678, c.name, c.pointer)
		if err != nil || len(buf) != c.size {
			t.Fatalf("%+v: %d bytes, %v", c, len(buf), err)
		}
		length := int(little.Uint32(buf[c.start-4:]))
		if little.Uint32(buf) != 3 || little.Uint32(buf[c.pointer:]) != 0x12345678 || string(buf[c.start:c.start+length]) != string(units(c.name)) {
			t.Errorf("%+v: % x", c, buf)
		}
	}
	if _, err := nt.NewName(0, 1, strings.Repeat("x", 32768), 8); err != nt.ErrTooLong {
		t.Errorf("a name of 32768 units: %v", err)
	}
}

func TestFiletime(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want int64
		ok   bool
	}{
		{time.Unix(0, 0), 116444736000000000, true},
		{time.Unix(-11644473600, 100), 1, true},
		{time.Unix(-11644473600, 0), 0, false}, // would say "leave it as it is"
		{time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), 0, false},
		{time.Date(2300, 1, 1, 0, 0, 0, 123456700, time.UTC), 220582656001234567, true}, // beyond int64 nanoseconds
		{time.Date(31000, 1, 1, 0, 0, 0, 0, time.UTC), 0, false},
	} {
		got, ok := nt.Filetime(c.at)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%v: %d, %v", c.at, got, ok)
		}
		if sec, nsec := nt.Unix(got); ok && !time.Unix(sec, nsec).Equal(c.at) {
			t.Errorf("%v comes back as %v", c.at, time.Unix(sec, nsec))
		}
	}
}

func TestRootPath(t *testing.T) {
	long := strings.Repeat(`\dddddddddd`, 30)
	for _, c := range []struct {
		path string
		kind nt.PathKind
		want string
	}{
		{`a\b`, nt.Relative, `a\b`},
		{`.`, nt.Relative, `.`},
		{`C:`, nt.DriveRelative, `C:`},
		{`C:a`, nt.DriveRelative, `C:a`},
		{`\a`, nt.Rooted, `\a`},
		{`/a`, nt.Rooted, `/a`},
		{`C:\a`, nt.DriveAbsolute, `C:\a`},
		{`c:/a`, nt.DriveAbsolute, `c:/a`},
		{`\\server\share`, nt.Server, `\\server\share`},
		{`//server/share/a`, nt.Server, `//server/share/a`},
		{`\\?\C:\a`, nt.Verbatim, `\\?\C:\a`},
		{`\\?\C:`, nt.Verbatim, `\\?\C:\`},
		{`\\?\UNC\server\share`, nt.Verbatim, `\\?\UNC\server\share`},
		{`\\?\Volume{0b1d6a27-0000-0000-0000-100000000000}`, nt.Verbatim, `\\?\Volume{0b1d6a27-0000-0000-0000-100000000000}\`},
		{`\\?\Volume{0b1d6a27-0000-0000-0000-100000000000}\a`, nt.Verbatim, `\\?\Volume{0b1d6a27-0000-0000-0000-100000000000}\a`},
		{`\??\C:\a`, nt.Verbatim, `\??\C:\a`},
		{`\\.\C:`, nt.Device, `\\.\C:\`},
		{`\\.\C:\a`, nt.Device, `\\.\C:\a`},
		{`//?/C:`, nt.Device, `//?/C:\`},
		{`C:` + long, nt.DriveAbsolute, `\\?\C:` + long},
		{`C:` + strings.ReplaceAll(long, `\`, "/"), nt.DriveAbsolute, `\\?\C:` + long},
		{`\\server\share` + long, nt.Server, `\\?\UNC\server\share` + long},
		{`C:a` + long, nt.DriveRelative, `\\?\C:\cwd\a` + long},
		{`a` + long, nt.Relative, `\\?\C:\cwd\a` + long},
		{`\\?\C:` + long, nt.Verbatim, `\\?\C:` + long},
	} {
		if got := nt.KindOfPath(c.path); got != c.kind {
			t.Errorf("%.40q is of kind %d", c.path, got)
		}
		if got, err := nt.RootPath(c.path, fullPath); err != nil || got != c.want {
			t.Errorf("%.40q is opened as %.60q, %v", c.path, got, err)
		}
	}
	refused := errors.New("no such drive")
	if _, err := nt.RootPath("a"+long, func(string) (string, error) { return "", refused }); err != refused {
		t.Errorf("%v", err)
	}
}

// fullPath is GetFullPathNameW with the current directory C:\cwd.
func fullPath(path string) (string, error) {
	path = strings.ReplaceAll(path, "/", `\`)
	switch nt.KindOfPath(path) {
	case nt.Relative:
		return `C:\cwd\` + path, nil
	case nt.DriveRelative:
		return path[:2] + `\cwd\` + path[2:], nil
	}
	return path, nil
}
