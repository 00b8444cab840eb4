package pathsafe

import (
	"strings"
	"unicode/utf8"
)

// notShort has the characters that become "_" in a short name.
const notShort = `"*+,/:;<=>?[\]|`

// isShortName reports whether c has the form of an 8.3 name that NTFS and FAT
// drivers generate for long: up to six characters of it, "~" and a number, or
// after some collisions two characters, four hexadecimal digits of a hash, "~"
// and a number; then three characters of the extension.
func isShortName(long, c string) bool {
	long = strings.ToUpper(dropIgnorable(long))
	if is8Dot3(long) || !utf8.ValidString(c) || strings.ContainsAny(c, notShort+" ") {
		return false // long is its own short name, or c is none
	}
	base, ext, _ := strings.Cut(strings.ToUpper(c), ".")
	tilde := strings.LastIndexByte(base, '~')
	if tilde < 1 || utf8.RuneCountInString(base) > 8 || !isIndex(base[tilde+1:]) {
		return false
	}
	longBase, longExt := cutExtension(strings.TrimLeft(long, ". "))
	return newShortPart(longBase).hasStem(base[:tilde], base[tilde+1:]) && newShortPart(longExt).hasExtension(ext)
}

// cutExtension cuts at the last dot. A short name has no other.
func cutExtension(name string) (base, ext string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// isIndex is true for the number after "~".
func isIndex(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

// is8Dot3 is true for a name in upper case that FAT can hold without a long
// entry, so that no "~" name is made for it.
func is8Dot3(name string) bool {
	const legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'()-@^_`{}~"
	base, ext := cutExtension(name)
	return base != "" && len(base) <= 8 && len(ext) <= 3 && strings.Trim(base+ext, legal) == "" && !strings.HasSuffix(name, ".")
}

// shortPart is what a part of a long name gives to a short one. Whether a
// character outside ASCII is dropped, replaced or kept depends on a code page,
// so a name with one is open after it: anything may follow.
type shortPart struct {
	text string
	open bool
}

func newShortPart(s string) shortPart {
	kept := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			return shortPart{string(kept), true}
		case c <= ' ' || c == '.' || c == 0x7f:
		case strings.IndexByte(notShort, c) >= 0:
			kept = append(kept, '_')
		default:
			kept = append(kept, c)
		}
	}
	return shortPart{text: string(kept)}
}

func (p shortPart) hasStem(stem, index string) bool {
	hash := p.text[:min(len(p.text), 2)]
	if p.open {
		return strings.HasPrefix(stem, hash)
	}
	if stem == p.text[:min(len(p.text), 6, 7-len(index))] {
		return true
	}
	digits, ok := strings.CutPrefix(stem, hash)
	return ok && len(digits) == 4 && strings.Trim(digits, "0123456789ABCDEF") == ""
}

// hasExtension takes a "~" for the last character too, which some drivers write
// for an extension that they cut.
func (p shortPart) hasExtension(ext string) bool {
	switch {
	case p.open:
		return strings.HasPrefix(ext, p.text[:min(len(p.text), 2)])
	case len(p.text) > 3:
		return ext == p.text[:3] || ext == p.text[:2]+"~"
	}
	return ext == p.text
}
