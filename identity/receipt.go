package identity

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Receipt tells what a call did, where, and to which object.
type Receipt struct {
	// Op is the verb: "put", "append", "move", "receipt", ...
	Op string
	// Path is the canonical name below the root: separated by slashes, without
	// links, "." or "..", and "." for the root itself. It is byte exact and need not
	// be UTF-8.
	Path string
	// ID identifies the object, Root the directory of the root.
	ID, Root ID
	// Ancestry has the directories from the root's child down to the parent, when
	// it was asked for.
	Ancestry []ID
	// Size is in bytes.
	Size    int64
	Mode    fs.FileMode
	Nlink   uint64
	ModTime time.Time
	// SHA256 is the lower-case hex digest of the content, "" when not asked for.
	SHA256 string
	// Containment and Durability are what was achieved, Asked what was asked for.
	Containment Containment
	Durability  Durability
	Asked       Durability
	Published   Publication
	// Lost names what a fallback could not give, as stable codes.
	Lost []string
}

// Compare decides whether now is the object of r as it was. Identity comes
// first, by the function Compare. Where that is not Different, another size of a
// regular file is, and so is another digest if both receipts have one.
//
// Not compared: mode, link count and times. An object keeps its identity when
// they change, a modification time can be set at will, and some systems move the
// change time when a file is merely opened. A caller to whom the mode matters
// compares r.Mode and now.Mode. Without digests, content of the same size that
// was written in place goes unnoticed.
func (r Receipt) Compare(now Receipt) (Verdict, Reason) {
	v, why := Compare(r.ID, now.ID)
	switch {
	case v == Different:
	case r.Mode.IsRegular() && r.Size != now.Size:
		return Different, BySize
	case r.SHA256 != "" && now.SHA256 != "" && r.SHA256 != now.SHA256:
		return Different, ByDigest
	}
	return v, why
}

// check refuses what the written form cannot carry, both ways: what is written
// can be read, and what was read can be written.
func (r *Receipt) check() error {
	bad := func(field string, value any) error {
		return &FieldError{field, fmt.Errorf("%w: %.60q", ErrFormat, fmt.Sprint(value))}
	}
	for _, code := range r.Lost {
		if code == "" || !isCode(code) {
			return bad("lost", code)
		}
	}
	switch {
	case !isCode(r.Op):
		return bad("op", r.Op)
	case !isCanonical(r.Path):
		return bad("path", r.Path)
	case r.Size < 0:
		return bad("size", r.Size)
	case r.Mode&^modeBits != 0:
		return bad("mode", r.Mode)
	case r.SHA256 != "" && !isDigest(r.SHA256):
		return bad("sha256", r.SHA256)
	}
	return nil
}

// isCanonical reports whether path is "." or components that no system resolves to
// anything but themselves.
func isCanonical(path string) bool {
	if path == "." {
		return true
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0 {
			return false
		}
	}
	return true
}

// isCode bounds what a stranger's receipt can make a log or a terminal show.
func isCode(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	return len(s) <= 64 && strings.Trim(s, letters) == ""
}

func isDigest(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == 32 && s == strings.ToLower(s)
}
