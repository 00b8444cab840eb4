package pathsafe

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Key returns what names have in common that are one name on some supported
// file system: the component without ignorable code points, in full case
// folding, in NFC. Equal keys are a collision; names with different keys are
// different as far as case and Unicode go. A component that is not UTF-8 only
// loses the case of ASCII: no supported file system folds more of it.
//
// A key is for comparing, never for opening, and not for storing: it changes
// with the version of Unicode that the program was built with. Key(Key(c)) is
// Key(c). A component that would fold to "", "." or ".." is its own key.
func Key(component string) string {
	switch {
	case isASCII(component):
		return strings.ToLower(component)
	case !utf8.ValidString(component):
		return lowerASCII(component)
	}
	switch key := fold(dropIgnorable(component)); key {
	case "", ".", "..":
		return component
	default:
		return key
	}
}

// KeyPath is Key for each component of a slash-separated path, without empty
// and "." components; "." for the start directory. It keeps "..".
func KeyPath(path string) string { return join(path, POSIX, Key) }

// fold is canonical caseless matching (Unicode D145). Decomposing first matters
// for U+0345, which becomes a letter by folding.
func fold(s string) string {
	return norm.NFC.String(strings.Map(upperCherokee, cases.Fold().String(decompose(s))))
}

// joiner is what x/text puts into a run of more than 30 marks (stream-safe text,
// UAX #15), after which order depends on the spelling. No language has such a
// run. A name that does is compared with one accent in place of all its marks:
// it may collide with too many names, never with too few.
const joiner = '\u034f'

func decompose(s string) string {
	d := norm.NFD.String(s)
	if !strings.ContainsRune(d, joiner) {
		return d
	}
	const accent = "\u0301"
	letters := strings.Map(func(r rune) rune {
		if r == joiner || norm.NFD.PropertiesString(string(r)).CCC() != 0 {
			return -1
		}
		return r
	}, d)
	return letters + accent
}

// upperCherokee corrects x/text, which folds Cherokee both ways. Unicode folds
// it to upper case, which existed first.
func upperCherokee(r rune) rune {
	switch {
	case r >= 0x13f8 && r <= 0x13fd:
		return r - 8
	case r >= 0xab70 && r <= 0xabbf:
		return r - 0xab70 + 0x13a0
	}
	return r
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowerASCII keeps all other bytes, which strings.ToLower would replace where
// they are not UTF-8: two names would become one.
func lowerASCII(s string) string {
	lower := []byte(s)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// ignorable has the code points with the property Default_Ignorable_Code_Point.
// ext4 and f2fs leave all of them out of the comparisons of a casefolding
// directory (fs/unicode since Linux 5.2), HFS+ some of them (TN1150), so that
// ".g<U+200C>it" is ".git" there.
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00ad, 0x00ad, 1},
		{0x034f, 0x034f, 1},
		{0x061c, 0x061c, 1},
		{0x115f, 0x1160, 1},
		{0x17b4, 0x17b5, 1},
		{0x180b, 0x180f, 1},
		{0x200b, 0x200f, 1},
		{0x202a, 0x202e, 1},
		{0x2060, 0x206f, 1},
		{0x3164, 0x3164, 1},
		{0xfe00, 0xfe0f, 1},
		{0xfeff, 0xfeff, 1},
		{0xffa0, 0xffa0, 1},
		{0xfff0, 0xfff8, 1},
	},
	R32: []unicode.Range32{
		{0x1bca0, 0x1bca3, 1},
		{0x1d173, 0x1d17a, 1},
		{0xe0000, 0xe0fff, 1},
	},
}

func isIgnorable(r rune) bool { return r >= utf8.RuneSelf && unicode.Is(ignorable, r) }

// dropIgnorable leaves a string that is not UTF-8 alone: stray bytes could
// become characters when what is between them goes.
func dropIgnorable(s string) string {
	if !utf8.ValidString(s) || strings.IndexFunc(s, isIgnorable) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if isIgnorable(r) {
			return -1
		}
		return r
	}, s)
}
