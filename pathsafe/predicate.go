package pathsafe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func hasNUL(s string) bool       { return strings.IndexByte(s, 0) >= 0 }
func notUTF8(s string) bool      { return !utf8.ValidString(s) }
func hasBackslash(s string) bool { return strings.IndexByte(s, '\\') >= 0 }
func hasColon(s string) bool     { return strings.IndexByte(s, ':') >= 0 }
func hasControl(s string) bool   { return strings.IndexFunc(s, isControl) >= 0 }
func hasBidi(s string) bool      { return strings.IndexFunc(s, isBidi) >= 0 }
func hasWildcard(s string) bool  { return strings.IndexFunc(s, isWildcard) >= 0 }

// hasC0 is what NTFS refuses. It holds DEL and C1 controls.
func hasC0(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' }) >= 0
}

// Windows drops trailing dots and spaces of every component before it looks a
// name up, so "trail." and "trail" are one file there.
func endsInDot(s string) bool   { return strings.HasSuffix(s, ".") }
func endsInBlank(s string) bool { return strings.HasSuffix(s, " ") }

// endsInSpace has the spaces of every script: they look like the one that
// Windows drops, and programs that trim text drop them all.
func endsInSpace(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsSpace(r) && !isControl(r)
}

// isDrive is true for one character and a colon: SUBST takes any character, so
// "ä:x" is a path on a drive too.
func isDrive(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return r != ':' && n > 0 && n < len(s) && s[n] == ':'
}

func isWildcard(r rune) bool { return r < utf8.RuneSelf && strings.IndexByte(`<>"|?*`, byte(r)) >= 0 }

// isControl has the characters that start a line or an escape sequence in some
// terminal: C0, DEL, C1, and the two line breaks of Unicode.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029
}

// isBidi has the code points with the property Bidi_Control (UAX #9).
func isBidi(r rune) bool {
	return r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// isDotsOnWindows is true for a name of which nothing but dots, or nothing, is
// left when Windows has cut the stream off and dropped spaces. Wine resolves
// "..." to a directory.
func isDotsOnWindows(s string) bool {
	s, _, _ = strings.Cut(s, ":")
	return strings.Trim(s, ". ") == ""
}

// isDotsAnywhere also counts out what HFS+ and casefolding ext4 ignore, and the
// spaces of every script.
func isDotsAnywhere(s string) bool {
	for _, r := range s {
		switch {
		case r == ':':
			return true
		case r != '.' && !unicode.IsSpace(r) && !isIgnorable(r):
			return false
		}
	}
	return true
}

// isNamedFork is true for the component by which macOS opens the forks of a
// file: "file/..namedfork/rsrc" (_PATH_FORKSPECIFIER in sys/paths.h).
func isNamedFork(s string) bool {
	rest := "..namedfork"
	for _, r := range s {
		if isIgnorable(r) {
			continue
		}
		if rest == "" || unicode.ToLower(r) != rune(rest[0]) {
			return false
		}
		rest = rest[1:]
	}
	return rest == ""
}

func isDeviceName(s string) bool { return deviceStem(s) != "" }

// deviceStem returns the part of s for which Windows opens a device, or "".
// The list is of "Naming Files, Paths, and Namespaces" in the Windows
// documentation, where a device name stays one with any extension, and where
// superscript digits count. Builds disagree about extensions, and about COM0,
// LPT0 and CLOCK$; the strictest answer is taken.
func deviceStem(s string) string {
	if len(s) < 3 || strings.IndexByte("CPANLcpanl", s[0]) < 0 {
		return ""
	}
	if i := strings.IndexAny(s, ".:"); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimRight(s, " ")
	if len(s) < 3 || len(s) > len("CONOUT$") {
		return ""
	}
	for _, name := range [...]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"} {
		if strings.EqualFold(s, name) {
			return s
		}
	}
	if strings.EqualFold(s[:3], "COM") || strings.EqualFold(s[:3], "LPT") {
		switch s[3:] {
		case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
			return s
		}
	}
	return ""
}
