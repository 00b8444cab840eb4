package pathsafe

import (
	"strings"
	"testing"
)

func TestSanitize(t *testing.T) {
	pad := func(s string, n int) string { return s + strings.Repeat(" ", n) }
	for _, c := range []struct {
		id, in string
		o      SanitizeOptions
		want   string
	}{
		{"52", "C<O>N", SanitizeOptions{Replacement: -1}, "CO_"},
		{"52", "C<O>N", SanitizeOptions{}, "C_O_N"},
		{"52", "C<O>N", SanitizeOptions{Replacement: '-'}, "C-O-N"},
		{"52", "C<O>N", SanitizeOptions{Replacement: ':'}, "C_O_N"},
		{"52", "L", SanitizeOptions{Prefix: "NU"}, "NU_"},
		{"52", "L.txt", SanitizeOptions{Prefix: "NU"}, "NU_.txt"},
		{"52", "x", SanitizeOptions{Prefix: "NUL."}, "NUL_x"},
		{"52", ".txt", SanitizeOptions{Prefix: "NUL"}, "NU_.txt"},
		{"52", "x", SanitizeOptions{Prefix: ".tmp-"}, ".tmp-x"},
		{"52", ".tmp-x", SanitizeOptions{Prefix: ".tmp-"}, ".tmp-x"},
		{"52", "", SanitizeOptions{Prefix: ".."}, ".__"},
		{"52", ".namedfork", SanitizeOptions{Prefix: "."}, "_.namedfork"},
		{"52", "abc", SanitizeOptions{Prefix: "long prefix", MaxBytes: 5}, "longa"},
		{"52", "abc", SanitizeOptions{Prefix: "p", MaxBytes: 1}, "a"},
		{"52", "abc", SanitizeOptions{Prefix: "p", MaxBytes: 2}, "pa"},
		{"52", pad("CON", 196) + "x", SanitizeOptions{MaxBytes: 200}, pad("CON", 196) + "x"},   // 200
		{"52", pad("CON", 197) + "x", SanitizeOptions{MaxBytes: 200}, "CO_"},                   // 201
		{"52", pad("CON", 195) + ".x", SanitizeOptions{MaxBytes: 200}, pad("CO_", 195) + ".x"}, // 200
		{"52", pad("CON", 195) + ".x", SanitizeOptions{MaxBytes: 199}, "CO_"},
		{"52", "CONSOLE", SanitizeOptions{MaxBytes: 3}, "CO_"},
		{"52", "COM¹", SanitizeOptions{MaxBytes: 5}, "COM_"},
		{"52", "COM¹", SanitizeOptions{MaxBytes: 4}, "COM"},
		{"52", "日本", SanitizeOptions{MaxBytes: 2}, "_"},
		{"52", "日本", SanitizeOptions{MaxBytes: 5}, "日"},
		{"50", "lpt³.log", SanitizeOptions{}, "lpt_.log"},
		{"51", "con ", SanitizeOptions{}, "co_"},
		{"51", "PRN:", SanitizeOptions{}, "PRN_"},
		{"54", "", SanitizeOptions{}, "_"},
		{"54", "..", SanitizeOptions{}, "_"},
		{"54", ".\u200c.", SanitizeOptions{}, "_"},
		{"54", "..::$INDEX_ALLOCATION", SanitizeOptions{}, "..__$INDEX_ALLOCATION"},
		{"55", "..named\u200cfork", SanitizeOptions{}, "_.named\u200cfork"},
		{"57", "trail. . ", SanitizeOptions{}, "trail"},
		{"58", `..\C:x/y`, SanitizeOptions{}, ".._C_x_y"},
		{"60", "a\x00b", SanitizeOptions{}, "a_b"},
		{"66", "a\r\u202eb", SanitizeOptions{}, "a__b"},
		{"67", "a\xff\xc0\xafb", SanitizeOptions{}, "a___b"},
		{"67", "\ufffd", SanitizeOptions{}, "\ufffd"},
		{"52", strings.Repeat("a", 300), SanitizeOptions{MaxBytes: 1 << 20}, strings.Repeat("a", 255)},
	} {
		got := Sanitize(c.in, c.o)
		if got != c.want {
			t.Errorf("case %s: Sanitize(%s, %+v) = %s, want %s", c.id, brief(c.in), c.o, brief(got), brief(c.want))
		}
	}
}

// Whatever goes in, Portable accepts what comes out, and it stays.
func TestSanitizeIsSoundAndIdempotent(t *testing.T) {
	prefixes := []string{
		"", "NU", "NUL", "CON.", "con", ".", "..", ".tmp-", "..named", "a b", "\u200b", "\u202e", "ü", "C:", "x. ", " ", "\xff", "COM",
	}
	for _, v := range verdicts() {
		for _, prefix := range prefixes {
			for _, replacement := range []rune{0, -1, '-', '.', ' ', '/', '．', 0xd800} {
				for _, limit := range []int{0, 1, 2, 3, 4, 5, 8, 200, 1000, -1} {
					checkSanitize(t, v.name, SanitizeOptions{limit, replacement, prefix})
				}
			}
		}
	}
}

func checkSanitize(t *testing.T, name string, o SanitizeOptions) {
	t.Helper()
	got := Sanitize(name[:min(len(name), 2000)], o)
	if err := Component(got, Portable); err != nil {
		t.Fatalf("Sanitize(%s, %+v) = %s: %v", brief(name), o, brief(got), err)
	}
	if o.MaxBytes > 0 && len(got) > o.MaxBytes {
		t.Fatalf("Sanitize(%s, %+v) = %s, %d bytes long", brief(name), o, brief(got), len(got))
	}
	if again := Sanitize(got, o); again != got {
		t.Fatalf("Sanitize(%s, %+v) = %s, which becomes %s", brief(name), o, brief(got), brief(again))
	}
}

func TestSanitizeKeepsPortableNames(t *testing.T) {
	for _, v := range verdicts() {
		if Component(v.name, Portable) == nil && Sanitize(v.name, SanitizeOptions{}) != v.name {
			t.Errorf("case %s: Sanitize changes %s, which is fine", v.id, brief(v.name))
		}
	}
}
