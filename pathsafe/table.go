package pathsafe

import (
	"strings"
	"unicode/utf8"
)

// table is the rules of one profile.
type table struct {
	backslash    backslash
	wide         bool // the limits count UTF-16 units, not bytes
	maxName      int
	maxComponent int
	rules        []rule // of one component; the first that is broken is reported
}

// backslash is what "\" means. Where it is more than a byte, drives exist too.
type backslash uint8

const (
	ordinary backslash = iota
	separates
	refused
)

// rule is one test of one component, which is never "", "." or "..". Only a
// component with a byte of the classes in only can break it; 0 is any.
type rule struct {
	code   Rule
	only   class
	breaks func(component string) bool
}

func (r *rule) applies(has class) bool { return r.only == 0 || r.only&has != 0 }

// class is a set of kinds of bytes. One pass over a component finds its classes,
// which for a plain name leaves no rule to run but one.
type class uint8

const (
	control class = 1 << iota // C0, NUL included, and DEL
	blank                     // dot, space
	slash                     // backslash, that is
	colon
	wildcard
	high // not ASCII
)

var classOf = classTable()

func classTable() (t [256]class) {
	for i := range t {
		switch c := rune(i); {
		case c >= utf8.RuneSelf:
			t[i] = high
		case isControl(c):
			t[i] = control
		case isWildcard(c):
			t[i] = wildcard
		}
	}
	t['.'], t[' '], t['\\'], t[':'] = blank, blank, slash, colon
	return t
}

func classesOf(s string) (has class) {
	for i := range len(s) {
		has |= classOf[s[i]]
	}
	return has
}

// maxWork bounds a name where the system sets no limit for a walk by component:
// PATH_MAX (4,096 in linux/limits.h) is of one system call. No kernel hands out
// a path of this length, so a longer name is an attack on memory or time.
const maxWork = 1 << 20

var (
	// Component lengths differ by file system and are left to the kernel.
	posixTable = table{
		maxName: maxWork, maxComponent: maxWork,
		rules: []rule{{NUL, control, hasNUL}},
	}

	// macOS file systems hold valid UTF-8 only (HFS+ and APFS answer EILSEQ).
	// APFS keeps the length of a component, a NUL included, in 10 bits
	// (J_DREC_LEN_MASK, Apple File System Reference); HFS+ has room for less
	// (255 UTF-16 units, TN1150), which its kernel says.
	darwinTable = table{
		maxName: maxWork, maxComponent: 1022,
		rules: []rule{{NUL, control, hasNUL}, {UTF8, high, notUTF8}, {NamedFork, blank, isNamedFork}},
	}

	// NTFS holds 255 UTF-16 units a component, the Windows API 32,767 a path
	// ("Maximum Path Length Limitation" of the Windows documentation).
	windowsTable = table{
		backslash: separates, wide: true, maxName: 32767, maxComponent: 255,
		rules: []rule{
			{NUL, control, hasNUL},
			{UTF8, high, notUTF8},
			{Disguised, blank | colon, isDotsOnWindows},
			{DeviceName, 0, isDeviceName},
			{Stream, colon, hasColon},
			{Control, control, hasC0},
			{Wildcard, wildcard, hasWildcard},
			{TrailingDot, blank, endsInDot},
			{TrailingSpace, blank, endsInBlank},
		},
	}

	// 255 bytes is NAME_MAX of Linux, the least of the systems, and 4,095 its
	// PATH_MAX without the NUL (linux/limits.h). Where the limit of a whole path
	// is lower (1,024 on macOS), it is one of a system call, not of a walk.
	portableTable = table{
		backslash: refused, maxName: 4095, maxComponent: 255,
		rules: []rule{
			{NUL, control, hasNUL},
			{UTF8, high, notUTF8},
			{Separator, slash, hasBackslash},
			{Disguised, blank | colon | high, isDotsAnywhere},
			{DeviceName, 0, isDeviceName},
			{Stream, colon, hasColon},
			{Control, control | high, hasControl},
			{Bidi, high, hasBidi},
			{Wildcard, wildcard, hasWildcard},
			{TrailingDot, blank, endsInDot},
			{TrailingSpace, blank | high, endsInSpace},
			{NamedFork, blank, isNamedFork},
		},
	}
)

// separator reports whether c ends a component.
func (t *table) separator(c byte) bool {
	return c == '/' || c == '\\' && t.backslash == separates
}

// endOf returns the index of the separator that ends the component at start,
// or the length of name.
func (t *table) endOf(name string, start int) int {
	end := start
	for end < len(name) && !t.separator(name[end]) {
		end++
	}
	return end
}

// whole returns the rule that a name breaks before its components are seen.
func (t *table) whole(name string) Rule {
	switch {
	case name == "":
		return Empty
	case t.length(name, t.maxName) > t.maxName:
		return TooLong
	case name[0] == '/' && t.backslash == ordinary:
		return Absolute
	case name[0] == '/', name[0] == '\\' && t.backslash != ordinary:
		return absoluteForm(name)
	case t.backslash != ordinary && isDrive(name):
		return Drive
	}
	return ""
}

// absoluteForm tells the absolute forms of Windows apart.
func absoluteForm(name string) Rule {
	start := strings.ReplaceAll(name[:min(len(name), 4)], `\`, "/")
	switch {
	case start == "//?/", start == "//./", start == "/??/":
		return DevicePath
	case strings.HasPrefix(start, "//"):
		return UNC
	}
	return Absolute
}

// component returns the first rule that part breaks.
func (t *table) component(part string) Rule {
	if t.length(part, t.maxComponent) > t.maxComponent {
		return TooLongComponent
	}
	has := classesOf(part)
	for i := range t.rules {
		if r := &t.rules[i]; r.applies(has) && r.breaks(part) {
			return r.code
		}
	}
	return ""
}

// length counts s in the table's unit. It need not be exact up to limit, which
// no string of fewer bytes exceeds in either unit.
func (t *table) length(s string, limit int) int {
	if !t.wide || len(s) <= limit {
		return len(s)
	}
	units := 0
	for _, r := range s {
		units++
		if r > 0xffff {
			units++
		}
	}
	return units
}
