package pathsafe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SanitizeOptions has useful zero values.
type SanitizeOptions struct {
	// MaxBytes bounds the result, prefix included. Zero, a negative value, and
	// anything over 255, which Portable allows, mean 255.
	MaxBytes int
	// Replacement stands for each character that is refused. Zero, or a
	// character that is itself refused, means '_'; a negative value drops them.
	Replacement rune
	// Prefix starts the result. It is itself sanitised, and has no spaces and
	// no dots but a leading one afterwards. A component that starts with it
	// does not get it twice. It is left out where MaxBytes has no room.
	Prefix string
}

// Sanitize makes a single component that Portable accepts out of any text. Its
// result sanitises to itself under the same options. It is not injective: two
// texts can give one name, which Set notices.
//
// Characters are replaced, the end is cut at a character, dots and spaces at
// the end are dropped, the last character of a device name becomes '_', and
// what has no text left is "_".
func Sanitize(component string, o SanitizeOptions) string {
	limit := o.MaxBytes
	if limit <= 0 || limit > portableTable.maxComponent {
		limit = portableTable.maxComponent
	}
	prefix := o.prefix(limit)
	rest := strings.TrimPrefix(o.replace(component), prefix)
	// Both parts are sound by now. Joined they can only form a device name
	// ("NU"+"L"), whose last character is of the second part: the prefix has no
	// dot that could end the device name inside it.
	return breakDevice(prefix + sound(rest, limit-len(prefix)))
}

// prefix returns the prefix to use: short of limit, and such that no device
// name ends in it.
func (o SanitizeOptions) prefix(limit int) string {
	p := o.replace(o.Prefix)
	if p == "" || limit < 2 {
		return ""
	}
	dot := strings.HasPrefix(p, ".")
	p = strings.Map(func(r rune) rune {
		if r == '.' || unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, p)
	if dot {
		p = "." + p[1:]
	}
	return sound(p, limit-1)
}

// replace removes every character that Portable refuses wherever it stands.
func (o SanitizeOptions) replace(s string) string {
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case !(r == utf8.RuneError && n == 1) && !isRefused(r):
			b.WriteString(s[:n])
		case o.Replacement >= 0:
			b.WriteRune(o.replacement())
		}
		s = s[n:]
	}
	return b.String()
}

func (o SanitizeOptions) replacement() rune {
	if isRefused(o.Replacement) || !utf8.ValidRune(o.Replacement) {
		return '_'
	}
	return o.Replacement
}

func isRefused(r rune) bool {
	return r == '/' || r == '\\' || r == ':' || isControl(r) || isBidi(r) || isWildcard(r)
}

// sound makes s acceptable, given that no character of it is refused. No step
// after the cut makes s longer, and none brings back what one before it removed.
func sound(s string, limit int) string {
	s = strings.TrimRightFunc(cut(s, limit), func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	if isDotsAnywhere(s) {
		return "_"
	}
	if isNamedFork(s) {
		_, n := utf8.DecodeRuneInString(s)
		return "_" + s[n:]
	}
	return breakDevice(s)
}

// cut keeps at most limit bytes of s, in whole characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// breakDevice makes the last character of a device name "_", which none has.
func breakDevice(s string) string {
	stem := deviceStem(s)
	if stem == "" {
		return s
	}
	_, n := utf8.DecodeLastRuneInString(stem)
	return stem[:len(stem)-n] + "_" + s[len(stem):]
}
