package pathsafe

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Quote returns name in double quotes for display. Everything that does not
// show is escaped as in a Go string: control characters, line breaks, spaces
// other than " ", direction marks, code points without a shape of their own,
// bytes that are not UTF-8. strconv.Unquote gives the name back. The result is
// for messages and logs, never for opening.
func Quote(name string) string {
	// strconv.Quote escapes all of that but fillers and variation selectors,
	// which it takes for letters and marks.
	if strings.IndexFunc(name, isIgnorable) < 0 {
		return strconv.Quote(name)
	}
	quoted := []byte{'"'}
	for rest := name; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		one := strconv.Quote(rest[:n])
		if isIgnorable(r) {
			one = strconv.QuoteToASCII(rest[:n])
		}
		quoted = append(quoted, one[1:len(one)-1]...)
		rest = rest[n:]
	}
	return string(append(quoted, '"'))
}
