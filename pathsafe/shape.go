package pathsafe

import "strings"

// Shape is what a spelling says before anything is looked up. It holds only
// substrings of the name.
type Shape struct {
	// Parent is the text up to the end of the component before the leaf; ""
	// when the leaf is directly in the start directory.
	Parent string
	// Path is the text up to the end of the leaf; "." when there is no leaf.
	Path string
	// Leaf is the last component: "" when the spelling has only "." components,
	// ".." when it ends in "..".
	Leaf string
	// MustDir is set by a trailing separator, by "/." and by a leaf "..": only
	// a directory meets such a spelling.
	MustDir bool
	// DotDot tells that some component, the leaf included, is "..".
	DotDot bool
	// Clean tells that the spelling is its own canonical form: no empty or "."
	// component, no trailing separator, no separator but "/".
	Clean bool
}

// Parse takes a spelling apart and checks every component against the
// profile's table. It does not resolve "..", which only real directories can
// say. It returns an *Error for a spelling that is empty, absolute or too long,
// or has a component that the table refuses; it allocates only then.
func Parse(name string, p Profile) (Shape, error) {
	t := p.table()
	if r := t.whole(name); r != "" {
		return Shape{}, &Error{Rule: r, Name: name}
	}
	s := Shape{Clean: true}
	for start := 0; start <= len(name); {
		end := t.endOf(name, start)
		switch part := name[start:end]; part {
		case "", ".":
			s.MustDir, s.Clean = true, false
		default:
			if part == ".." {
				s.DotDot = true
			} else if r := t.component(part); r != "" {
				return Shape{}, &Error{Rule: r, Name: name, Component: part}
			}
			s.Parent, s.Path, s.Leaf, s.MustDir = s.Path, name[:end], part, part == ".."
		}
		if end < len(name) && name[end] != '/' {
			s.Clean = false
		}
		start = end + 1
	}
	if s.Leaf == "" {
		s.Path, s.MustDir = ".", true
	}
	return s, nil
}

// Component checks the name of something new, as Parse checks each component.
// It returns an *Error for "", ".", ".." and anything with a separator too.
func Component(name string, p Profile) error {
	t := p.table()
	r := t.whole(name)
	switch {
	case r != "":
	case name == "." || name == "..":
		r = Dots
	case t.endOf(name, 0) < len(name):
		r = Separator
	default:
		r = t.component(name)
	}
	if r != "" {
		return &Error{Rule: r, Name: name}
	}
	return nil
}

// Target checks the text of a symbolic link and reports whether it is
// absolute; on Windows every form with a drive, a server or a device is. It
// returns an *Error for a text that is empty, too long or has a NUL, which no
// link can have. Its components are checked when they are walked.
//
// The text of a link that exists is written in the system's own way: ask with
// Host. Portable judges the text of a new link: it refuses a backslash and
// takes what is absolute on Windows for absolute.
func Target(text string, p Profile) (absolute bool, err error) {
	t := p.table()
	var r Rule
	switch {
	case text == "":
		r = Empty
	case t.length(text, t.maxName) > t.maxName:
		r = TooLong
	case hasNUL(text):
		r = NUL
	case t.backslash == refused && text[0] != '\\' && hasBackslash(text) && !isDrive(text):
		r = Separator
	}
	if r != "" {
		return false, &Error{Rule: r, Name: text}
	}
	return text[0] == '/' || t.backslash != ordinary && (text[0] == '\\' || isDrive(text)), nil
}

// Next returns the first component of a path and what follows it, passing over
// empty and "." components. At the end component is "".
func Next(path string, p Profile) (component, rest string) {
	t := p.table()
	for path != "" {
		end := t.endOf(path, 0)
		component, rest = path[:end], path[min(end+1, len(path)):]
		if component != "" && component != "." {
			return component, rest
		}
		path = rest
	}
	return "", ""
}

// Canonical joins the components of name by "/", without empty and "." ones;
// ".." is kept. It splits as Host does. It is "." for the start directory, and
// name itself, without allocation, when that is already canonical. It checks
// nothing: a leading separator is dropped like any empty component.
func Canonical(name string) string {
	if s, err := Parse(name, Host); err == nil && s.Clean {
		return name
	}
	return join(name, Host, func(c string) string { return c })
}

// join rebuilds a path from what each does to its components.
func join(path string, p Profile, each func(string) string) string {
	var b strings.Builder
	for c, rest := Next(path, p); c != ""; c, rest = Next(rest, p) {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(each(c))
	}
	if b.Len() == 0 {
		return "."
	}
	return b.String()
}
