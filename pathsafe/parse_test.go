package pathsafe

import (
	"encoding/json"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func ruleOf(t *testing.T, err error) Rule {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is a %T, want *Error", err)
	}
	return e.Rule
}

// Every pathsafe case on every table.
func TestParseVerdicts(t *testing.T) {
	for _, v := range verdicts() {
		for _, p := range tables {
			_, err := Parse(v.name, p)
			if got := ruleOf(t, err); got != v.of(p) {
				t.Errorf("case %s: Parse(%s, %v): rule %q, want %q", v.id, brief(v.name), p, got, v.of(p))
			}
		}
	}
}

func TestPortableRefusesWhatAnyTableRefuses(t *testing.T) {
	for _, v := range verdicts() {
		for _, p := range tables {
			if _, err := Parse(v.name, p); err == nil {
				continue
			}
			if _, err := Parse(v.name, Portable); err == nil {
				t.Errorf("case %s: %s is refused by %v and accepted by Portable", v.id, brief(v.name), p)
			}
		}
	}
}

func TestHostIsATable(t *testing.T) {
	want := POSIX
	switch runtime.GOOS {
	case "windows":
		want = Windows
	case "darwin", "ios":
		want = Darwin
	}
	for _, v := range verdicts() {
		_, err := Parse(v.name, Host)
		if got := ruleOf(t, err); got != v.of(want) {
			t.Errorf("case %s: Parse(%s, Host): rule %q, want %q", v.id, brief(v.name), got, v.of(want))
		}
	}
}

func TestUnknownProfileIsStrict(t *testing.T) {
	if _, err := Parse("aa:b", Profile(99)); ruleOf(t, err) != Stream {
		t.Errorf("Parse under an unknown profile: %v, want the verdict of Portable", err)
	}
}

// Cases 31, 61, 175: what a spelling says about place and kind.
func TestShape(t *testing.T) {
	const root = "."
	for _, c := range []struct {
		name string
		p    Profile
		want Shape
	}{
		{"lk", POSIX, Shape{Path: "lk", Leaf: "lk", Clean: true}},
		{"lk/", POSIX, Shape{Path: "lk", Leaf: "lk", MustDir: true}},
		{"lk/.", POSIX, Shape{Path: "lk", Leaf: "lk", MustDir: true}},
		{"lk//", POSIX, Shape{Path: "lk", Leaf: "lk", MustDir: true}},
		{"lk/./", POSIX, Shape{Path: "lk", Leaf: "lk", MustDir: true}},
		{"./lk/", POSIX, Shape{Path: "./lk", Leaf: "lk", MustDir: true}},
		{"a/b", POSIX, Shape{Parent: "a", Path: "a/b", Leaf: "b", Clean: true}},
		{"a//b", POSIX, Shape{Parent: "a", Path: "a//b", Leaf: "b"}},
		{"a/./b", POSIX, Shape{Parent: "a", Path: "a/./b", Leaf: "b"}},
		{"./a", POSIX, Shape{Path: "./a", Leaf: "a"}},
		{"a/../b", POSIX, Shape{Parent: "a/..", Path: "a/../b", Leaf: "b", DotDot: true, Clean: true}},
		{"a/..", POSIX, Shape{Parent: "a", Path: "a/..", Leaf: "..", MustDir: true, DotDot: true, Clean: true}},
		{"../", POSIX, Shape{Path: "..", Leaf: "..", MustDir: true, DotDot: true}},
		{".", POSIX, Shape{Path: root, MustDir: true}},
		{"./", POSIX, Shape{Path: root, MustDir: true}},
		{"./.", POSIX, Shape{Path: root, MustDir: true}},
		{`a\b`, POSIX, Shape{Path: `a\b`, Leaf: `a\b`, Clean: true}},
		{`a\b`, Darwin, Shape{Path: `a\b`, Leaf: `a\b`, Clean: true}},
		{`a\b`, Windows, Shape{Parent: "a", Path: `a\b`, Leaf: "b"}},
		{`a\..\b\`, Windows, Shape{Parent: `a\..`, Path: `a\..\b`, Leaf: "b", MustDir: true, DotDot: true}},
		{"a/b", Windows, Shape{Parent: "a", Path: "a/b", Leaf: "b", Clean: true}},
	} {
		got, err := Parse(c.name, c.p)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q, %v) = %+v, %v; want %+v", c.name, c.p, got, err, c.want)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	for _, v := range verdicts() {
		for _, p := range tables {
			if v.of(p) != "" {
				continue
			}
			if n := testing.AllocsPerRun(5, func() { Parse(v.name, p) }); n != 0 {
				t.Errorf("case %s: Parse(%s, %v) made %v allocations, want 0", v.id, brief(v.name), p, n)
			}
		}
	}
}

// A rule that is skipped for want of a byte of its classes must not be broken.
func TestClassesDecideNothing(t *testing.T) {
	for _, v := range verdicts() {
		for _, part := range strings.Split(v.name, "/") {
			if part == "" || part == "." || part == ".." {
				continue
			}
			has := classesOf(part)
			for _, p := range tables {
				for _, r := range p.table().rules {
					if !r.applies(has) && r.breaks(part) {
						t.Errorf("case %s: %v skips rule %q for %s", v.id, p, r.code, brief(part))
					}
				}
			}
		}
	}
}

func TestComponent(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Profile
		want Rule
	}{
		{"", POSIX, Empty},
		{".", POSIX, Dots},
		{"..", Windows, Dots},
		{"a/b", POSIX, Separator},
		{"/a", POSIX, Absolute},
		{"c:a", Windows, Drive},
		{"a/", Portable, Separator},
		{`a\b`, Windows, Separator},
		{`a\b`, Portable, Separator},
		{`a\b`, POSIX, ""},
		{"nul", Portable, DeviceName},
		{"nul", POSIX, ""},
		{"file", Portable, ""},
	} {
		if got := ruleOf(t, Component(c.name, c.p)); got != c.want {
			t.Errorf("Component(%q, %v): rule %q, want %q", c.name, c.p, got, c.want)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		text     string
		p        Profile
		absolute bool
		want     Rule
	}{
		{"", POSIX, false, Empty},
		{"a\x00b", POSIX, false, NUL},
		{strings.Repeat("a", maxWork+1), POSIX, false, TooLong},
		{strings.Repeat("a", maxWork), POSIX, false, ""},
		{"../x", POSIX, false, ""},
		{"/x", POSIX, true, ""},
		{"a\xff", POSIX, false, ""},
		{`\x`, POSIX, false, ""},
		{"C:x", Darwin, false, ""},
		{`a\b`, Windows, false, ""},
		{`\x`, Windows, true, ""},
		{"C:x", Windows, true, ""},
		{`\\srv\share`, Windows, true, ""},
		{`\\?\C:\x`, Windows, true, ""},
		{`\??\C:\x`, Windows, true, ""},
		{`a\b`, Portable, false, Separator},
		{`\x`, Portable, true, ""},
		{`C:\x`, Portable, true, ""},
		{"a/b", Portable, false, ""},
	} {
		absolute, err := Target(c.text, c.p)
		if got := ruleOf(t, err); got != c.want || absolute != c.absolute {
			t.Errorf("Target(%s, %v) = %v, rule %q; want %v, %q", brief(c.text), c.p, absolute, got, c.absolute, c.want)
		}
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		path string
		p    Profile
		want []string
	}{
		{"", POSIX, nil},
		{".//./", POSIX, nil},
		{"a", POSIX, []string{"a"}},
		{"//a/./b//..///c/", POSIX, []string{"a", "b", "..", "c"}},
		{`a\b/c`, POSIX, []string{`a\b`, "c"}},
		{`a\b/c`, Windows, []string{"a", "b", "c"}},
	} {
		var got []string
		for name, rest := Next(c.path, c.p); name != ""; name, rest = Next(rest, c.p) {
			got = append(got, name)
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("Next over %q, %v: %q, want %q", c.path, c.p, got, c.want)
		}
	}
}

func TestCanonical(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "a/b": "a/b", "./a//b/./": "a/b", ".": ".", "": ".", "./": ".", "a/../b": "a/../b", "..": "..",
		" a ": " a ", "a\xff": "a\xff",
	} {
		if got := Canonical(name); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", name, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Canonical("a/b/c") }); n != 0 {
		t.Errorf("Canonical of a canonical name made %v allocations, want 0", n)
	}
}

// Cases 60, 66: a refusal can be printed.
func TestErrorTextIsSafe(t *testing.T) {
	for _, v := range verdicts() {
		for _, p := range tables {
			_, err := Parse(v.name, p)
			if err == nil {
				continue
			}
			if !errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("case %s: %v matches the wrong errors", v.id, err)
			}
			text := err.Error()
			if hasControl(text) || hasBidi(text) || !utf8.ValidString(text) || len(text) > 4000 {
				t.Errorf("case %s: error text %q (%d bytes) is not fit for a terminal", v.id, text, len(text))
			}
			if !strings.HasSuffix(text, "("+string(v.of(p))+")") {
				t.Errorf("case %s: error text %q does not name rule %q", v.id, text, v.of(p))
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	for name, want := range map[string]string{
		"a/nul/b": `name "a/nul/b" refused at "nul": Windows opens a device for it (device-name)`,
		"nul":     `name "nul" refused: Windows opens a device for it (device-name)`,
		"":        `name "" refused: it is empty (empty)`,
	} {
		if _, err := Parse(name, Portable); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v, want %s", name, err, want)
		}
	}
}

func TestErrorCutsLongNames(t *testing.T) {
	for pad := range 5 {
		_, err := Parse(strings.Repeat("a", pad)+strings.Repeat("😀", 2000), Portable)
		text := err.Error()
		if len(text) > 500 || !strings.Contains(text, `😀"…`) || strings.Contains(text, `\x`) {
			t.Errorf("error text of a long name: %s", text)
		}
	}
}

func TestEveryRuleHasAReason(t *testing.T) {
	used := []Rule{
		Empty, Absolute, UNC, DevicePath, TooLong, TooLongComponent, Dots, Separator,
		Duplicate, Collision, FileAsDirectory, SameName, Normalization, Ignorable, CaseFold, ShortName,
	}
	for _, p := range tables {
		for _, r := range p.table().rules {
			used = append(used, r.code)
		}
	}
	for _, r := range used {
		if r.Reason() == "" {
			t.Errorf("rule %q has no reason", r)
		}
	}
	if Rule("no such rule").Reason() != "" {
		t.Error("an unknown rule has a reason")
	}
}

func TestExplain(t *testing.T) {
	for _, v := range verdicts() {
		for _, p := range tables {
			found := Explain(v.name, p)
			if (len(found) == 0) != (v.of(p) == "") || len(found) > 0 && found[0].Rule != v.of(p) {
				t.Errorf("case %s: Explain(%s, %v) = %v, want %q first", v.id, brief(v.name), p, found, v.of(p))
			}
			for _, f := range found {
				if !strings.HasPrefix(v.name[f.Offset:], f.Component) {
					t.Errorf("case %s: Explain(%s, %v): %+v is not at its offset", v.id, brief(v.name), p, f)
				}
			}
		}
	}
	want := []Finding{
		{Absolute, "", 0}, {DeviceName, "aux.", 1}, {TrailingDot, "aux.", 1}, {Control, "a\n ", 9}, {TrailingSpace, "a\n ", 9},
	}
	got := Explain("/aux./../a\n ", Windows)
	if len(got) != len(want) {
		t.Fatalf("Explain = %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("finding %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestProfileText(t *testing.T) {
	for p := Portable; p <= Darwin; p++ {
		got, err := ParseProfile(p.String())
		if err != nil || got != p {
			t.Errorf("ParseProfile(%q) = %v, %v", p.String(), got, err)
		}
		text, err := json.Marshal(p)
		var back Profile
		if err != nil || json.Unmarshal(text, &back) != nil || back != p {
			t.Errorf("%v does not survive JSON: %s, %v", p, text, err)
		}
	}
	if _, err := ParseProfile("Windows"); err == nil {
		t.Error("ParseProfile takes a name in another case")
	}
	beyond := Darwin + 1
	if _, err := beyond.MarshalText(); err == nil || beyond.String() != "invalid(5)" {
		t.Errorf("a number passes for a profile: %v", beyond)
	}
}

func TestMeet(t *testing.T) {
	for p := Portable; p <= Darwin; p++ {
		for q := Portable; q <= Darwin; q++ {
			m := p.Meet(q)
			if m != q.Meet(p) || p.Meet(p) != p {
				t.Errorf("Meet of %v and %v: %v one way, %v the other", p, q, m, q.Meet(p))
			}
			for _, v := range verdicts() {
				_, err := Parse(v.name, m)
				_, perr := Parse(v.name, p)
				_, qerr := Parse(v.name, q)
				if err == nil && (perr != nil || qerr != nil) {
					t.Errorf("%v, the meet of %v and %v, accepts %s", m, p, q, brief(v.name))
				}
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, p := range tables {
		b.Run(p.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse("src/internal/abi/funcpc_gccgo.go", p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
