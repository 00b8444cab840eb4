package pathsafe

import (
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rule is the stable code of the rule that refused a name.
type Rule string

// The rules. Each says for which spelling it stands.
const (
	Empty            Rule = "empty"              // ""
	Absolute         Rule = "absolute"           // a leading separator
	UNC              Rule = "unc"                // \\server\share, //server/share
	DevicePath       Rule = "device-path"        // \\?\, \\.\, \??\
	TooLong          Rule = "too-long"           // the whole name
	TooLongComponent Rule = "too-long-component" // one component
	NUL              Rule = "nul"
	UTF8             Rule = "utf8"             // not valid UTF-8
	Backslash        Rule = "backslash"        // a separator elsewhere
	Separator        Rule = "separator"        // where one component is wanted
	Drive            Rule = "drive"            // C:, C:x, ä:x
	Stream           Rule = "stream"           // file:stream, dir::$INDEX_ALLOCATION
	Control          Rule = "control"          // C0, DEL, C1, U+2028, U+2029
	Bidi             Rule = "bidi"             // direction overrides
	Wildcard         Rule = "wildcard"         // < > " | ? *
	Disguised        Rule = "disguised-parent" // "...", ".. ", ". .", ".<U+200C>."
	TrailingDot      Rule = "trailing-dot"     // dropped by Windows
	TrailingSpace    Rule = "trailing-space"   // dropped by Windows
	DeviceName       Rule = "device-name"      // CON, NUL.txt, COM¹
	NamedFork        Rule = "named-fork"       // ..namedfork
)

// Error says which rule refused which component of which name.
type Error struct {
	Rule      Rule
	Name      string // as given
	Component string // "" when the rule is of the whole name
}

func (e *Error) Error() string {
	if e.Component == "" || e.Component == e.Name {
		return "name " + Quote(e.Name) + " refused: " + string(e.Rule)
	}
	return "name " + Quote(e.Name) + " refused at " + Quote(e.Component) + ": " + string(e.Rule)
}

// Is makes every refusal match fs.ErrInvalid.
func (e *Error) Is(target error) bool { return target == fs.ErrInvalid }

// rule is one test of one component.
type rule struct {
	code   Rule
	breaks func(component string) bool
}

func (t *table) whole(name string) error {
	switch {
	case name == "":
		return &Error{Rule: Empty, Name: name}
	case len(name) > t.maxName:
		return &Error{Rule: TooLong, Name: name}
	case name[0] == '/' || name[0] == '\\' && (t.backslash || t == &portableTable):
		return &Error{Rule: rooted(name), Name: name}
	}
	return nil
}

func rooted(name string) Rule {
	slashed := strings.ReplaceAll(name, `\`, "/")
	switch {
	case strings.HasPrefix(slashed, "//?/"), strings.HasPrefix(slashed, "//./"), strings.HasPrefix(slashed, "/??/"):
		return DevicePath
	case strings.HasPrefix(slashed, "//"):
		return UNC
	}
	return Absolute
}

func (t *table) component(name, part string) error {
	if t.length(part) > t.maxComponent {
		return &Error{Rule: TooLongComponent, Name: name, Component: part}
	}
	for i := range t.rules {
		if t.rules[i].breaks(part) {
			return &Error{Rule: t.rules[i].code, Name: name, Component: part}
		}
	}
	return nil
}

func (t *table) length(s string) int {
	if !t.wide || len(s) <= t.maxComponent {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

var (
	ruleNUL       = rule{NUL, func(s string) bool { return strings.IndexByte(s, 0) >= 0 }}
	ruleUTF8      = rule{UTF8, func(s string) bool { return !utf8.ValidString(s) }}
	ruleBackslash = rule{Backslash, func(s string) bool { return strings.IndexByte(s, '\\') >= 0 }}
	ruleDrive     = rule{Drive, isDrive}
	ruleStream    = rule{Stream, func(s string) bool { return strings.IndexByte(s, ':') >= 0 }}
	ruleControl   = rule{Control, func(s string) bool { return strings.IndexFunc(s, isControl) >= 0 }}
	ruleBidi      = rule{Bidi, func(s string) bool { return strings.IndexFunc(s, isBidi) >= 0 }}
	ruleWildcard  = rule{Wildcard, func(s string) bool { return strings.ContainsAny(s, `<>"|?*`) }}
	ruleDisguised = rule{Disguised, isDisguisedParent}
	// Windows drops trailing dots and spaces of every component before it looks
	// a name up, so "trail." and "trail" are one file there.
	ruleTrailingDot   = rule{TrailingDot, func(s string) bool { return strings.HasSuffix(s, ".") }}
	ruleTrailingSpace = rule{TrailingSpace, endsInSpace}
	ruleDevice        = rule{DeviceName, isDeviceName}
	// "file/..namedfork/rsrc" opens the resource fork on HFS+ and APFS.
	ruleNamedFork = rule{NamedFork, func(s string) bool { return strings.EqualFold(foldIgnorable(s), "..namedfork") }}
)

// isDrive is true for one character and a colon: SUBST takes any letter.
func isDrive(s string) bool {
	_, n := utf8.DecodeRuneInString(s)
	return n > 0 && n < len(s) && s[n] == ':'
}

func isControl(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029
}

func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}

func endsInSpace(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsSpace(r)
}

// isDisguisedParent is true when s becomes "", "." or ".." after some system
// has dropped what it drops: trailing dots and spaces (Windows), ignorable
// code points (HFS+), a stream suffix (NTFS). More than two dots are a parent
// of a parent to some old systems and resolve to a directory under Wine.
func isDisguisedParent(s string) bool {
	s = foldIgnorable(s)
	if i := strings.IndexByte(s, ':'); i >= 0 {
		s = s[:i]
	}
	dots := 0
	for _, r := range s {
		switch {
		case r == '.':
			dots++
		case !unicode.IsSpace(r):
			return false
		}
	}
	return dots > 0 || s == "" || strings.TrimSpace(s) == ""
}

// isDeviceName follows "Naming Files, Paths, and Namespaces" of the Windows
// documentation: a device name stays one with any extension. The superscript
// digits count as digits because older builds folded them. COM0 and LPT0 are
// refused: builds disagree about them.
func isDeviceName(s string) bool {
	if i := strings.IndexAny(s, ".:"); i >= 0 {
		s = s[:i]
	}
	s = strings.ToUpper(strings.TrimRightFunc(s, unicode.IsSpace))
	switch s {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	if len(s) < 4 || s[:3] != "COM" && s[:3] != "LPT" {
		return false
	}
	switch s[3:] {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return true
	}
	return false
}

// foldIgnorable drops the code points that HFS+ ignores in comparisons (Apple
// technical note TN1150), which made ".g<U+200C>it" the same name as ".git".
func foldIgnorable(s string) string {
	ascii := true
	for i := 0; i < len(s) && ascii; i++ {
		ascii = s[i] < utf8.RuneSelf
	}
	if ascii {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0x00ad:
			return -1
		}
		return r
	}, s)
}
