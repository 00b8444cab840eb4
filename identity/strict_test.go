package identity_test

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caproot/caproot/identity"
)

// refusedNames are more edits of the written form of a full receipt.
var refusedNames = []struct{ name, old, with string }{
	{"case 31: path empty", `src/main.go`, ``},
	{"case 31: path absolute", `src/main.go`, `/etc/passwd`},
	{"case 31: path climbs", `src/main.go`, `../main.go`},
	{"case 31: path climbs inside", `src/main.go`, `src/../main.go`},
	{"case 31: path ends above", `src/main.go`, `src/..`},
	{"case 31: path with a dot", `src/main.go`, `src/./main.go`},
	{"case 31: path ends in a dot", `src/main.go`, `src/.`},
	{"case 31: path ends in a slash", `src/main.go`, `src/`},
	{"case 31: path with two slashes", `src/main.go`, `src//main.go`},
	{"path with NUL", `src/main.go`, `src\u0000`},
	{"path of bytes that climbs", `"path":"src/main.go"`, `"path_b64":"/y8uLg=="`},
	{"handle of one byte", `00000001864098003cff4442`, `00`},
	{"handle of a type alone", `00000001864098003cff4442`, `00000001`},
	{"handle too long", `00000001864098003cff4442`, strings.Repeat("00", 133)},
	{"handle in capitals", `00000001864098003cff4442`, `00000001864098003CFF4442`},
	{"handle of half a byte", `00000001864098003cff4442`, `00000001864098003cff444`},
	{"handle empty", `00000001864098003cff4442`, ``},
}

// paths are canonical, and of any bytes.
func paths() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 8).Filter(func(name []byte) bool {
			return string(name) != "." && string(name) != ".." && !bytes.ContainsAny(name, "/\x00")
		}), 0, 4).Draw(t, "names")
		return cmp.Or(string(bytes.Join(names, []byte("/"))), ".")
	})
}

// One field to blame is told.
func TestReceiptTellsTheField(t *testing.T) {
	for field, piece := range map[string][2]string{
		"path": {`src/main.go`, `..`}, "size": {`"size":"5"`, `"size":"-5"`}, "mtime": {`1796099980.207822204`, `1`},
		"handle": {`00000001864098003cff4442`, `00`}, "lost": {`["o_tmpfile","dir-sync"]`, `[""]`}, "op": {`"op":"put",`, ``},
	} {
		var r identity.Receipt
		err := r.UnmarshalJSON(edited(t, piece[0], piece[1]))
		// The inner one, of a field of an ID.
		name := ""
		for e, ok := errors.AsType[*identity.FieldError](err); ok; e, ok = errors.AsType[*identity.FieldError](e.Err) {
			name = e.Field
		}
		if name != field || !errors.Is(err, identity.ErrFormat) {
			t.Errorf("%s: told %q, %v", field, name, err)
		}
	}
}
