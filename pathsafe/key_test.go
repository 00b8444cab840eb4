package pathsafe

import (
	"strings"
	"testing"
	"unicode"
)

// Case 63: names that are one on some file system have one key.
func TestKeyCollisions(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"foo", "FOO"},
		{"n\u00e4ive", "na\u0308ive"},
		{"\u00c4", "a\u0308"},
		{"stra\u00dfe", "STRASSE"},
		{"\u03c3\u03c2", "\u03a3\u03a3"},            // final sigma
		{"\ufb03", "FFI"},                           // ligature
		{"\u212a", "k"},                             // Kelvin sign
		{"\u212b", "\u00e5"},                        // Angstrom sign
		{"a\u0323\u0307", "a\u0307\u0323"},          // order of marks
		{"\u1fb3", "\u0391\u0345"},                  // iota below, which folds to a letter
		{".g\u200cit", ".GIT"},                      // case 55
		{"\ufeff.git", ".git"},                      // case 55
		{"e\u034f\u0301", "\u00c9"},                 // ignorable between letter and mark
		{"\u13a0", "\uab70"},                        // Cherokee folds to upper case
		{"a\xff", "A\xff"},                          // case 67
		{"\ua64b\u1e9e", "\ua64a" + "s" + "\u017f"}, // sharp s, long s
	} {
		if ka, kb := Key(c.a), Key(c.b); ka != kb {
			t.Errorf("Key(%+q) = %+q, Key(%+q) = %+q; want one key", c.a, ka, c.b, kb)
		}
	}
}

func TestKeyKeepsApart(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"foo", "fo"}, {"a", "\u00e4"}, {"\u0131", "i"}, {"a.", "a"}, {"a ", "a"}, {"\u2024", "."},
		{"a\xff", "a\xfe"}, {"a\xff", "a\ufffd"}, {"\xff\u200c", "\ufffd"}, {"\xcd\u034f\x8f", "\u034f"}, // case 67: bytes are not replaced
		{".\u200c.", ".."}, {"\u200b", ""}, {"\u200b", "\u200d"}, // case 54: no key is "..", none is empty
	} {
		if Key(c.a) == Key(c.b) {
			t.Errorf("%+q and %+q both have key %+q", c.a, c.b, Key(c.a))
		}
	}
}

func TestKeyIsIdempotent(t *testing.T) {
	names := []string{
		strings.Repeat("\u0301\u0323", 60), "e" + strings.Repeat("\u0301\u0323\u0345", 40), "\u0345\u0301", "\u1fb3\u0345\u0323",
	}
	for _, v := range verdicts() {
		if len(v.name) < 1<<16 {
			names = append(names, v.name)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S, unicode.Cf) {
			names = append(names, string(r), "a"+string(r)+"\u0301", "\u0345"+string(r))
		}
	}
	for _, name := range names {
		key := Key(name)
		if again := Key(key); again != key {
			t.Errorf("Key(%s) = %s, whose key is %s", brief(name), brief(key), brief(again))
		}
	}
}

func TestKeyPath(t *testing.T) {
	for path, want := range map[string]string{
		"A//B/./C/": "a/b/c", ".": ".", "./": ".", "A/../B": "a/../b", ".\u200c./x": ".\u200c./x",
	} {
		if got := KeyPath(path); got != want || KeyPath(got) != got {
			t.Errorf("KeyPath(%q) = %q, then %q; want %q", path, got, KeyPath(got), want)
		}
	}
}

// The table of ignorable code points is what the properties of Go's Unicode
// version give for Default_Ignorable_Code_Point (UAX #44), or more of what is
// not assigned yet.
func TestIgnorableTable(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		format := unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) &&
			(r < 0xfff9 || r > 0xfffb) && (r < 0x13430 || r > 0x13440)
		want := format || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if got := isIgnorable(r); got != want && !(got && unicode.Is(unicode.Cn, r)) {
			t.Errorf("isIgnorable(%U) = %v, want %v", r, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"plain name":       `"plain name"`,
		"a\x00b\r\n":       `"a\x00b\r\n"`, // cases 60, 66
		"\x1b[31m\x7f":     `"\x1b[31m\x7f"`,
		"c1\u0085":         `"c1\u0085"`,
		"txt\u202egpj.exe": `"txt\u202egpj.exe"`,
		"a\xff\xc0\xaf":    `"a\xff\xc0\xaf"`, // case 67
		".g\u200cit":       `".g\u200cit"`,    // case 55
		"nb\u00a0sp":       `"nb\u00a0sp"`,
		"❤\ufe0f\xff":      `"❤\ufe0f\xff"`,
		"\u3164\U000e0041": `"\u3164\U000e0041"`,
		"日本語 ä":            `"日本語 ä"`,
		`a"b\c`:            `"a\"b\\c"`,
		"\ufe0f\"\\'":      `"\ufe0f\"\\'"`,
		"":                 `""`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("Quote(%+q) = %s, want %s", name, got, want)
		}
	}
}
