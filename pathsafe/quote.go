package pathsafe

import (
	"strconv"
	"strings"
)

// Quote returns name for display, in double quotes, with controls, direction
// overrides, ignorable code points and bytes that are not UTF-8 escaped as in a
// Go string. It is for messages and logs, never for opening.
func Quote(name string) string {
	quoted := strconv.Quote(name)
	if strings.IndexFunc(quoted, isBidi) < 0 && foldIgnorable(quoted) == quoted {
		return quoted
	}
	return strconv.QuoteToASCII(name)
}
