package pathsafe

import "strings"

// Shape is what a spelling says before anything is looked up. It holds only
// substrings of the name.
type Shape struct {
	// Parent is the text before the leaf, without trailing separators; "" when
	// the leaf is directly in the start directory.
	Parent string
	// Path is the text up to the end of the leaf; "." when there is no leaf.
	Path string
	// Leaf is the last component: "" when the spelling has only "." components,
	// ".." when it ends in "..".
	Leaf string
	// MustDir is set by a trailing separator, by "/." and by a leaf "..".
	MustDir bool
	// DotDot tells that some component, the leaf included, is "..".
	DotDot bool
	// Clean tells that the spelling is its own canonical form: no empty or "."
	// component and no trailing separator.
	Clean bool
}

// Parse takes a spelling apart and checks every component against the
// profile's table. It does not resolve "..", which only real directories can
// say. It returns an *Error for a spelling that is empty, absolute, too long,
// or has a component that the table refuses; it allocates only then.
func Parse(name string, p Profile) (Shape, error) {
	t := p.table()
	if err := t.whole(name); err != nil {
		return Shape{}, err
	}
	s := Shape{Clean: true}
	start := 0
	for start <= len(name) {
		end := start
		for end < len(name) && !t.separator(name[end]) {
			end++
		}
		switch part := name[start:end]; part {
		case "", ".":
			s.MustDir, s.Clean = true, false
		default:
			if part == ".." {
				s.DotDot = true
			} else if err := t.component(name, part); err != nil {
				return Shape{}, err
			}
			s.Parent, s.Leaf, s.MustDir = trimSeparators(name[:start], t), part, part == ".."
			s.Path = name[:end]
		}
		start = end + 1
	}
	if s.Leaf == "" {
		s.Path, s.MustDir = ".", true
	}
	return s, nil
}

// Component checks a single component, as Parse does each of a name's. It
// returns an *Error for "", ".", ".." and for anything with a separator too.
func Component(name string, p Profile) error {
	t := p.table()
	switch {
	case name == "":
		return &Error{Rule: Empty, Name: name}
	case name == "." || name == "..":
		return &Error{Rule: Disguised, Name: name, Component: name}
	}
	for i := range len(name) {
		if t.separator(name[i]) {
			return &Error{Rule: Separator, Name: name}
		}
	}
	return t.component(name, name)
}

// Target checks the text of a symbolic link and reports whether it is
// absolute, which on Windows every form with a drive, a server or a device is.
// It returns an *Error for a text that no link can have.
func Target(text string, p Profile) (absolute bool, err error) {
	t := p.table()
	switch {
	case text == "":
		return false, &Error{Rule: Empty, Name: text}
	case len(text) > t.maxName:
		return false, &Error{Rule: TooLong, Name: text}
	case ruleNUL.breaks(text):
		return false, &Error{Rule: NUL, Name: text}
	}
	return text[0] == '/' || t.backslash && (text[0] == '\\' || isDrive(text)), nil
}

func trimSeparators(s string, t *table) string {
	for s != "" && t.separator(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// Next returns the first component of a path and what follows it, passing over
// empty and "." components. At the end component is "".
func Next(path string, p Profile) (component, rest string) {
	t := p.table()
	for path != "" {
		end := 0
		for end < len(path) && !t.separator(path[end]) {
			end++
		}
		component, rest = path[:end], path[min(end+1, len(path)):]
		if component != "" && component != "." {
			return component, rest
		}
		path = rest
	}
	return "", ""
}

// Canonical joins the components of a slash-separated path by single slashes,
// without empty and "." ones; ".." is kept. It is "." for the start directory,
// and name itself, without allocation, when that is already canonical.
func Canonical(name string) string {
	if s, err := Parse(name, POSIX); err == nil && s.Clean {
		return name
	}
	var b strings.Builder
	for c, rest := Next(name, POSIX); c != ""; c, rest = Next(rest, POSIX) {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(c)
	}
	if b.Len() == 0 {
		return "."
	}
	return b.String()
}
