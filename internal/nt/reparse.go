package nt

import "strings"

// Tags of reparse points (MS-FSCC 2.1.2.1).
const (
	TagSymlink    = 0xA000000C
	TagMountPoint = 0xA0000003
	tagDedup      = 0x80000013
	tagWOF        = 0x80000017
	tagCloud      = 0x9000001A // and fifteen more, which differ in tagCloudAny
	tagCloudAny   = 0x0000F000
)

// Kind is what a reparse point is taken for.
type Kind uint8

const (
	// Special is refused, as a device is: what it leads to only its driver knows.
	Special Kind = iota
	// Link has a text that is walked inside or refused, by policy.
	Link
	// Content is a file or directory whose content a driver keeps elsewhere, or
	// packed: deduplicated, compressed, or with a cloud provider.
	Content
)

// KindOf decides by the tag alone. A tag that is not known here is Special, those
// that stand for another name (bit 29) among them.
func KindOf(tag uint32) Kind {
	switch {
	case tag == TagSymlink, tag == TagMountPoint:
		return Link
	case tag == tagDedup, tag == tagWOF, tag&^tagCloudAny == tagCloud:
		return Content
	}
	return Special
}

// REPARSE_DATA_BUFFER of ntifs.h: tag, length of the rest, a reserved field; then
// offsets and lengths in bytes of two texts, for a symbolic link flags, the texts.
const (
	bodyAt           = 8
	mountPointTextAt = 16
	symlinkTextAt    = 20
	symlinkRelative  = 1
	// MaxReparse is MAXIMUM_REPARSE_DATA_BUFFER_SIZE.
	MaxReparse = 16 << 10
)

// LinkTarget takes the target out of a reparse buffer. What is absolute for Windows
// is absolute in the result: it begins with a drive or a separator.
func LinkTarget(buf []byte) (string, error) {
	if len(buf) < bodyAt {
		return "", ErrData
	}
	tag, textAt := little.Uint32(buf), mountPointTextAt
	switch tag {
	case TagMountPoint:
	case TagSymlink:
		textAt = symlinkTextAt
	default:
		return "", ErrNotLink
	}
	body := bodyAt + int(little.Uint16(buf[4:]))
	if body < textAt || body > len(buf) {
		return "", ErrData
	}
	from, length := textAt+int(little.Uint16(buf[8:])), int(little.Uint16(buf[10:]))
	if length == 0 || from%2 != 0 || length%2 != 0 || from+length > body {
		return "", ErrData
	}
	text := decode(buf[from : from+length])
	if strings.ContainsRune(text, 0) {
		return "", ErrData
	}
	if tag == TagSymlink && little.Uint32(buf[16:])&symlinkRelative != 0 {
		return text, nil
	}
	return absoluteTarget(text)
}

// absoluteTarget is the text of an absolute link without the native prefix, where
// there is a form of Win32 for it.
func absoluteTarget(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, `\??\`)
	switch {
	case !ok && strings.HasPrefix(text, `\`):
		return text, nil
	case !ok:
		return "", ErrData
	case hasDrive(rest) && len(rest) > 2 && rest[2] == '\\':
		return rest, nil
	}
	if share, ok := strings.CutPrefix(rest, `UNC\`); ok {
		return `\\` + share, nil
	}
	return `\\?\` + rest, nil
}

func hasDrive(text string) bool {
	return len(text) >= 2 && text[1] == ':' && (text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z')
}

// LinkData makes the reparse buffer of a symbolic link. It returns ErrTarget for a
// target on a drive but relative to that drive's current directory.
func LinkData(target string) ([]byte, error) {
	target = strings.ReplaceAll(target, "/", `\`)
	native, relative := target, false
	switch {
	case strings.HasPrefix(target, `\\?\`), strings.HasPrefix(target, `\\.\`), strings.HasPrefix(target, `\??\`):
		native = `\??\` + target[4:]
	case strings.HasPrefix(target, `\\`):
		native = `\??\UNC\` + target[2:]
	case hasDrive(target):
		if len(target) < 3 || target[2] != '\\' {
			return nil, ErrTarget
		}
		native = `\??\` + target
	default:
		relative = true
	}
	wide, shown := encode(native), encode(target)
	size := symlinkTextAt + len(wide) + len(shown)
	if size > MaxReparse {
		return nil, ErrTooLong
	}
	buf := make([]byte, symlinkTextAt, size)
	little.PutUint32(buf, TagSymlink)
	little.PutUint16(buf[4:], uint16(size-bodyAt))
	little.PutUint16(buf[10:], uint16(len(wide)))
	little.PutUint16(buf[12:], uint16(len(wide)))
	little.PutUint16(buf[14:], uint16(len(shown)))
	if relative {
		little.PutUint32(buf[16:], symlinkRelative)
	}
	return append(append(buf, wide...), shown...), nil
}
