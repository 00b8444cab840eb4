package fuzz_test

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/caproot/caproot/pathsafe"
)

// spellings are the inputs of the cases about names, by case id.
var spellings = map[string][]string{
	"24":  {strings.Repeat(strings.Repeat("d", 250)+"/", 17) + strings.Repeat("../", 17)},
	"31":  {"lk", "lk/", "lk/.", "./lk/", "lk//", "in/../out/"},
	"50":  {"COM¹", "LPT³", "com².txt", "lpt³.log", "COM¹ .x"},
	"51":  {"CON", "nul", "aux.", "con ", "NUL.txt", "CONIN$", "CONOUT$", "PRN:", "COM0", "CLOCK$"},
	"52":  {"C<O>N", "NUL", "NU", "L", strings.Repeat("x", 200), "CON" + strings.Repeat(" ", 197) + "x"},
	"54":  {".. ", "...", "..::$INDEX_ALLOCATION", ".\u200c.", ". .", "..\u00a0"},
	"55":  {".g\u200cit", ".GIT", ".gi\ufefft", ".g\u200dit", "GIT~1", "GI7EBA~1", ".git::$INDEX_ALLOCATION"},
	"57":  {"trail.", "trail ", "trail./x", "trail /x"},
	"58":  {"C:x", "C:..", `D:..\E:..\x`, "ä:x", `\\?\C:\x`, `\\.\pipe\x`, "//srv/share", "/??/C:/x"},
	"60":  {"a\x00b", "a/../b"},
	"61":  {"", "a//b", "/", "./", "."},
	"63":  {"FOO/", "foo", "FOO/x", "na\u00efve", "nai\u0308ve", "STRASSE", "stra\u00dfe", "\u13a0\uab70"},
	"64":  {"Abc", "aBC"},
	"66":  {"name\r", "a\nb", "\x7f", "\u009b", "\u202e", "\u2028"},
	"67":  {"a\xff", "\xcd\u034f\x8f", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82"},
	"175": {"a/..", "..", "../"},
	"marks": {
		"e" + strings.Repeat("\u0301\u0323\u0345", 12), strings.Repeat("\u0323", 31), "\u0345\u0301", "\u034f", "..namedfork",
	},
}

func addSpellings(add func(name string)) {
	for _, names := range spellings {
		for _, name := range names {
			add(name)
		}
	}
}

func FuzzParse(f *testing.F) {
	addSpellings(func(name string) {
		for p := pathsafe.Portable; p <= pathsafe.Darwin; p++ {
			f.Add(name, uint8(p))
		}
	})
	f.Fuzz(func(t *testing.T, name string, profile uint8) {
		p := pathsafe.Profile(profile)
		checkQuote(t, name)
		shape, err := pathsafe.Parse(name, p)
		found := pathsafe.Explain(name, p)
		if err != nil {
			checkRefusal(t, err, found)
			return
		}
		if len(found) != 0 {
			t.Fatalf("accepted, but Explain finds %v", found)
		}
		parts := components(name, p)
		checkShape(t, name, shape, parts)
		checkCleaned(t, strings.Join(parts, "/"), p, shape)
		if p == pathsafe.Portable {
			checkPortable(t, name, parts)
		}
	})
}

func components(name string, p pathsafe.Profile) (parts []string) {
	for c, rest := pathsafe.Next(name, p); c != ""; c, rest = pathsafe.Next(rest, p) {
		parts = append(parts, c)
	}
	return parts
}

func checkRefusal(t *testing.T, err error, found []pathsafe.Finding) {
	var e *pathsafe.Error
	if !errors.As(err, &e) || !errors.Is(err, fs.ErrInvalid) {
		t.Fatalf("the refusal is a %T: %v", err, err)
	}
	if len(found) == 0 || found[0].Rule != e.Rule {
		t.Fatalf("refused by %q, but Explain finds %v", e.Rule, found)
	}
	if !printable(err.Error()) {
		t.Fatalf("error text %q is not printable", err.Error())
	}
}

func checkShape(t *testing.T, name string, s pathsafe.Shape, parts []string) {
	climbs := false
	for _, c := range parts {
		climbs = climbs || c == ".."
	}
	leaf := ""
	if len(parts) > 0 {
		leaf = parts[len(parts)-1]
	}
	switch {
	case s.Leaf != leaf || s.DotDot != climbs:
		t.Fatalf("shape %+v of components %q", s, parts)
	case leaf != "" && (!strings.HasPrefix(name, s.Path) || !strings.HasPrefix(s.Path, s.Parent) || !strings.HasSuffix(s.Path, leaf)):
		t.Fatalf("shape %+v is not of substrings", s)
	case (s.Parent == "") != (len(parts) < 2):
		t.Fatalf("shape %+v has the wrong parent for %q", s, parts)
	case s.Clean && name != strings.Join(parts, "/"):
		t.Fatalf("shape %+v is not clean", s)
	}
}

// checkCleaned tells that cleaning changes the spelling and nothing else.
func checkCleaned(t *testing.T, cleaned string, p pathsafe.Profile, was pathsafe.Shape) {
	if cleaned == "" {
		cleaned = "."
	}
	s, err := pathsafe.Parse(cleaned, p)
	if err != nil {
		t.Fatalf("%q is accepted and its clean form %q refused: %v", was.Path, cleaned, err)
	}
	if s.Leaf != was.Leaf || s.DotDot != was.DotDot || s.Clean != (cleaned != ".") {
		t.Fatalf("shape %+v became %+v by cleaning", was, s)
	}
	if again := pathsafe.Canonical(cleaned); again != cleaned && !strings.Contains(cleaned, `\`) {
		t.Fatalf("Canonical(%q) = %q", cleaned, again)
	}
}

func checkPortable(t *testing.T, name string, parts []string) {
	for p := pathsafe.Portable; p <= pathsafe.Darwin; p++ {
		if _, err := pathsafe.Parse(name, p); err != nil {
			t.Fatalf("Portable accepts, %v refuses: %v", p, err)
		}
	}
	for _, c := range parts {
		if c != ".." && strings.TrimFunc(c, isNothing) == "" {
			t.Fatalf("component %+q is a directory alias in disguise", c)
		}
	}
}

// isNothing has what Windows drops at the end of a name and HFS+ drops anywhere
// (Apple TN1150).
func isNothing(r rune) bool {
	switch {
	case r == '.', unicode.IsSpace(r), r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}

func checkQuote(t *testing.T, name string) {
	quoted := pathsafe.Quote(name)
	if !printable(quoted) {
		t.Fatalf("Quote(%+q) = %+q, which is not printable", name, quoted)
	}
	if back, err := strconv.Unquote(quoted); err != nil || back != name {
		t.Fatalf("Quote(%+q) = %+q reads back as %+q, %v", name, quoted, back, err)
	}
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.In(r, unicode.Cf, unicode.Bidi_Control, unicode.Variation_Selector)
	}) < 0
}

func FuzzSanitize(f *testing.F) {
	addSpellings(func(name string) {
		f.Add(name, "", 0, '_')
		f.Add(name, "NU", 200, rune(-1))
		f.Add("x", name, 5, '.')
		f.Add(name, name, 3, '/')
	})
	f.Fuzz(func(t *testing.T, component, prefix string, limit int, replacement rune) {
		o := pathsafe.SanitizeOptions{MaxBytes: limit, Replacement: replacement, Prefix: prefix}
		name := pathsafe.Sanitize(component, o)
		if err := pathsafe.Component(name, pathsafe.Portable); err != nil {
			t.Fatalf("Sanitize(%+q, %+v): %v", component, o, err)
		}
		if limit > 0 && len(name) > limit {
			t.Fatalf("Sanitize(%+q, %+v) = %+q, %d bytes", component, o, name, len(name))
		}
		if again := pathsafe.Sanitize(name, o); again != name {
			t.Fatalf("Sanitize(%+q, %+v) = %+q, which becomes %+q", component, o, name, again)
		}
		if plain := (pathsafe.SanitizeOptions{}); pathsafe.Component(component, pathsafe.Portable) == nil &&
			pathsafe.Sanitize(component, plain) != component {
			t.Fatalf("Sanitize changes %+q, which is fine", component)
		}
	})
}

func FuzzKey(f *testing.F) {
	addSpellings(func(name string) {
		f.Add(name, ".git")
		f.Add(".git", name)
		f.Add(name, strings.ToUpper(name))
	})
	f.Fuzz(func(t *testing.T, name, other string) {
		key := pathsafe.Key(name)
		if again := pathsafe.Key(key); again != key {
			t.Fatalf("Key(%+q) = %+q, whose key is %+q", name, key, again)
		}
		path := pathsafe.KeyPath(name)
		if again := pathsafe.KeyPath(path); again != path {
			t.Fatalf("KeyPath(%+q) = %+q, whose key is %+q", name, path, again)
		}
		if utf8.ValidString(name) && pathsafe.Key(norm.NFD.String(name)) != key {
			t.Fatalf("Key of %+q depends on its normalisation form", name)
		}
		if strings.Count(key, "/") != strings.Count(name, "/") || (key == "") != (name == "") {
			t.Fatalf("Key(%+q) = %+q has other components", name, key)
		}
		checkMatches(t, name, other)
		checkSet(t, name, other)
	})
}

func checkMatches(t *testing.T, name, other string) {
	if _, ok := pathsafe.Matches(name, name); ok != (name != "") {
		t.Fatalf("Matches(%+q, itself) = %v", name, ok)
	}
	_, ok := pathsafe.Matches(name, other)
	if name != "" && pathsafe.Key(name) == pathsafe.Key(other) && !ok {
		t.Fatalf("%+q and %+q have one key and do not match", name, other)
	}
	if !ok || pathsafe.Component(name, pathsafe.Portable) != nil {
		return // what is protected ends in a disguise itself
	}
	for _, disguise := range []string{other + ".", other + " ", other + ":x", other + "\u200c"} {
		if _, still := pathsafe.Matches(name, disguise); !still {
			t.Fatalf("Matches(%+q, %+q), but not %+q", name, other, disguise)
		}
	}
}

// checkSet adds two names: they collide, or their paths are spelled alike as
// far as their keys are alike.
func checkSet(t *testing.T, name, other string) {
	var set pathsafe.Set
	if set.Add(name, false) != nil || set.Add(other, false) != nil {
		return
	}
	a, b := components(name, pathsafe.POSIX), components(other, pathsafe.POSIX)
	for i := range min(len(a), len(b)) {
		if pathsafe.Key(a[i]) != pathsafe.Key(b[i]) {
			return
		}
		if a[i] != b[i] {
			t.Fatalf("%+q and %+q are both in the set", name, other)
		}
	}
}
