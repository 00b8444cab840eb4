package identity

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// MaxReceiptBytes is the longest JSON form that is written or read. A receipt
// with an ancestry of a thousand directories fits.
const MaxReceiptBytes = 1 << 20

// receiptVersion changes when a reader of the old form would misread the new.
const receiptVersion = 1

// VersionError is returned for a receipt in a version of the form that this
// package does not read. It matches ErrFormat.
type VersionError struct{ Version uint64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("identity: receipt version %d, want %d", e.Version, receiptVersion)
}

// Is makes a VersionError match ErrFormat.
func (e *VersionError) Is(target error) bool { return target == ErrFormat }

// idJSON is the wire form. 64-bit numbers are strings, because many readers keep
// numbers as doubles, in which 72057594037932383 and ...382 are one.
type idJSON struct {
	Type    string  `json:"type"`
	Dev     number  `json:"dev"`
	Ino     number  `json:"ino"`
	InoHigh number  `json:"ino_high,omitzero"`
	Mount   number  `json:"mount,omitzero"`
	Gen     *number `json:"gen,omitempty"`
	Birth   string  `json:"birth_ns,omitempty"`
	Handle  string  `json:"handle,omitempty"`
}

// MarshalJSON writes the form documented in docs/receipts.md. It returns an
// error that wraps ErrFormat for a handle of less than 5 or more than 132 bytes,
// which no kernel gives.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.Handle != "" && !isHandle(id.Handle) {
		return nil, fmt.Errorf("%w: handle of %d bytes", ErrFormat, len(id.Handle))
	}
	w := idJSON{
		Type: kindOf(id.Type).name, Dev: number(id.Dev), Ino: number(id.Ino), InoHigh: number(id.InoHigh),
		Mount: number(id.Mount), Handle: hex.EncodeToString([]byte(id.Handle)),
	}
	if id.HasGen {
		w.Gen = (*number)(&id.Gen)
	}
	if id.HasBirth {
		w.Birth = strconv.FormatInt(id.Birth, 10)
	}
	return json.Marshal(w)
}

// UnmarshalJSON returns an error that wraps ErrFormat when the text is longer
// than MaxReceiptBytes or does not read, and that is a *FieldError when one field
// does not. Fields that it does not know are passed over.
func (id *ID) UnmarshalJSON(data []byte) error {
	o := readObject(data)
	out := ID{
		Type: take(o, "type", parseKind), Dev: take(o, "dev", parseUint), Ino: take(o, "ino", parseUint),
		InoHigh: takeIf(o, "ino_high", parseUint), Mount: takeIf(o, "mount", parseUint),
		Gen: takeIf(o, "gen", parseUint), HasGen: o.has("gen"),
		Birth: takeIf(o, "birth_ns", parseInt), HasBirth: o.has("birth_ns"),
		Handle: takeIf(o, "handle", parseHandle),
	}
	if o.err == nil {
		*id = out
	}
	return o.err
}

type receiptJSON struct {
	V           int         `json:"v"`
	Op          string      `json:"op"`
	Path        *string     `json:"path,omitempty"`
	PathBytes   []byte      `json:"path_b64,omitempty"`
	ID          ID          `json:"id"`
	Root        ID          `json:"root,omitzero"`
	Ancestry    []ID        `json:"ancestry,omitempty"`
	Size        number      `json:"size"`
	Mode        string      `json:"mode"`
	Nlink       number      `json:"nlink"`
	ModTime     string      `json:"mtime"`
	SHA256      string      `json:"sha256,omitempty"`
	Containment Containment `json:"containment"`
	Durability  Durability  `json:"durability"`
	Asked       Durability  `json:"asked"`
	Published   Publication `json:"published,omitzero"`
	Lost        []string    `json:"lost,omitempty"`
}

// MarshalJSON writes the form documented in docs/receipts.md. It returns an
// error that wraps ErrFormat for a receipt that could not be read back: with a
// path that is none below a root, a negative size, mode bits that are not of Unix, a digest that is none, an op or
// lost code that is not lower-case letters, digits, "-", "_" and ".", a handle
// of less than 5 or more than 132 bytes, or a text longer than MaxReceiptBytes.
func (r Receipt) MarshalJSON() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	w := receiptJSON{
		V: receiptVersion, Op: r.Op, ID: r.ID, Root: r.Root, Ancestry: r.Ancestry,
		Size: number(r.Size), Mode: formatMode(r.Mode), Nlink: number(r.Nlink), ModTime: formatTime(r.ModTime), SHA256: r.SHA256,
		Containment: r.Containment, Durability: r.Durability, Asked: r.Asked, Published: r.Published, Lost: r.Lost,
	}
	// JSON strings hold only Unicode, and a name is bytes.
	if utf8.ValidString(r.Path) {
		w.Path = &r.Path
	} else {
		w.PathBytes = []byte(r.Path)
	}
	text, err := json.Marshal(w)
	if err == nil && len(text) > MaxReceiptBytes {
		err = fmt.Errorf("%w: receipt longer than %d bytes", ErrFormat, MaxReceiptBytes)
	}
	return text, err
}

// UnmarshalJSON returns a *VersionError for a version it does not read, and an
// error that wraps ErrFormat when the text is longer than MaxReceiptBytes or does
// not read, and that is a *FieldError when one field does not. Fields that it does not know are passed over. Of a text that
// encoding/json already split, the length is checked too late to bound memory:
// who reads receipts of strangers bounds the line first.
func (r *Receipt) UnmarshalJSON(data []byte) error {
	o := readObject(data)
	o.version()
	out := Receipt{
		Op: take(o, "op", asText), Path: takePath(o),
		Mode: take(o, "mode", parseMode), Nlink: take(o, "nlink", parseUint), ModTime: take(o, "mtime", parseTime),
		Size: take(o, "size", parseInt), SHA256: takeIf(o, "sha256", asText),
		Containment: take(o, "containment", ParseContainment), Durability: take(o, "durability", ParseDurability),
		Asked: take(o, "asked", ParseDurability), Published: takeIf(o, "published", ParsePublication),
	}
	o.into("id", &out.ID)
	o.intoIf("root", &out.Root)
	o.intoIf("ancestry", &out.Ancestry)
	o.intoIf("lost", &out.Lost)
	if len(out.Ancestry) == 0 {
		out.Ancestry = nil
	}
	if len(out.Lost) == 0 {
		out.Lost = nil
	}
	if o.err == nil {
		o.err = out.check()
	}
	if o.err == nil {
		*r = out
	}
	return o.err
}

// version comes before every other field, which another version may spell
// otherwise.
func (o *object) version() {
	var v uint64
	if o.into("v", &v); o.err == nil && v != receiptVersion {
		o.err = &VersionError{v}
	}
}

func takePath(o *object) string {
	if !o.has("path_b64") {
		return take(o, "path", asText)
	}
	return take(o, "path_b64", func(s string) (string, error) {
		path, err := base64.StdEncoding.DecodeString(s)
		switch {
		case err != nil || base64.StdEncoding.EncodeToString(path) != s:
			return "", fmt.Errorf("%w: base64", ErrFormat)
		case o.has("path") || utf8.Valid(path):
			return "", fmt.Errorf("%w: a path that \"path\" can carry", ErrFormat)
		}
		return string(path), nil
	})
}
