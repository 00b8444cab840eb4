// Package nt reads and writes the records and texts of the native interface of
// Windows. It calls nothing, so that it is tested on every system. Whatever it
// reads may come from a hostile file system or server.
package nt

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	// ErrData is returned for a record that is not what its kind must be.
	ErrData = errors.New("malformed data from the file system")
	// ErrNotLink is returned for a reparse point that is no link.
	ErrNotLink = errors.New("reparse point is not a link")
	// ErrTooLong is returned for a text that no record has room for.
	ErrTooLong = errors.New("text is too long")
	// ErrTarget is returned for the text of a link that Windows would read as
	// something else than where it leads.
	ErrTarget = errors.New("link target depends on the current directory")
)

var little = binary.LittleEndian

// IsComponent reports whether name is one component for the native interface,
// which parses "\" and leaves ".." to each file system. "" opens a directory's own
// object anew and is none.
func IsComponent(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "\\/\x00")
}

// decode makes UTF-16 into UTF-8, as package syscall does: a surrogate without a
// partner becomes three bytes, so that the way back leads to the same name.
func decode(b []byte) string {
	text := make([]byte, 0, len(b)/2)
	for i := 0; i+1 < len(b); i += 2 {
		r := rune(little.Uint16(b[i:]))
		switch {
		case !utf16.IsSurrogate(r):
			text = utf8.AppendRune(text, r)
			continue
		case i+3 < len(b):
			if pair := utf16.DecodeRune(r, rune(little.Uint16(b[i+2:]))); pair != utf8.RuneError {
				text = utf8.AppendRune(text, pair)
				i += 2
				continue
			}
		}
		text = append(text, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return string(text)
}

// encode is the way back.
func encode(s string) []byte {
	b := make([]byte, 0, 2*len(s))
	for i := 0; i < len(s); {
		if half, ok := loneSurrogate(s[i:]); ok {
			b = little.AppendUint16(b, half)
			i += 3
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		for _, unit := range utf16.AppendRune(nil, r) {
			b = little.AppendUint16(b, unit)
		}
		i += size
	}
	return b
}

func loneSurrogate(s string) (uint16, bool) {
	if len(s) < 3 || s[0] != 0xed || s[1]&0xe0 != 0xa0 || s[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | uint16(s[1]&0x3f)<<6 | uint16(s[2]&0x3f), true
}
