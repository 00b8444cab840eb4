package pathsafe

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Matches reports whether component reaches the object named protected on some
// supported file system, and by which rule: SameName, Normalization, Ignorable,
// CaseFold, TrailingDot, TrailingSpace, Stream or ShortName. The disguises are
// looked for together, so one cannot hide another; the rule is the last of
// them that was needed.
//
// It errs towards a match: a name that may be an 8.3 name of protected is one,
// though the volume may have none. It cannot know the names that a server such
// as Samba invents. protected is taken as it is, never trimmed: "a " protects
// "a ", not "a". An empty protected matches nothing.
func Matches(protected, component string) (Rule, bool) {
	switch protected {
	case "":
		return "", false
	case component:
		return SameName, true
	}
	want, readings := Key(protected), undisguised(component)
	for _, r := range readings {
		if Key(r.text) != want {
			continue
		}
		if r.rule == "" {
			return difference(protected, component), true
		}
		return r.rule, true
	}
	for _, r := range readings {
		if isShortName(protected, r.text) {
			return ShortName, true
		}
	}
	return "", false
}

// reading is what a file system may take a component for.
type reading struct {
	text string
	rule Rule // that leads there; "" for the whole component
}

// undisguised lists the readings of a component: whole, without what Windows
// drops at its end, without stream, and without both.
func undisguised(component string) []reading {
	s := dropIgnorable(component)
	all := []reading{{s, ""}}
	if short := strings.TrimRight(s, ". "); short != s {
		rule := TrailingDot
		if strings.HasSuffix(s, " ") {
			rule = TrailingSpace
		}
		all = append(all, reading{short, rule})
	}
	if file, _, ok := strings.Cut(s, ":"); ok {
		all = append(all, reading{file, Stream}, reading{strings.TrimRight(file, ". "), Stream})
	}
	return all
}

// difference names the last folding that makes two different names with one key
// equal.
func difference(a, b string) Rule {
	switch {
	case norm.NFC.String(a) == norm.NFC.String(b):
		return Normalization
	case norm.NFC.String(dropIgnorable(a)) == norm.NFC.String(dropIgnorable(b)):
		return Ignorable
	}
	return CaseFold
}
