package identity

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Every number has one spelling, so that two texts of one receipt are equal: no
// sign +, no leading zeros, no -0.

func parseUint(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(v, 10) != s {
		return 0, fmt.Errorf("%w: number %.60q", ErrFormat, s)
	}
	return v, nil
}

func parseInt(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != s {
		return 0, fmt.Errorf("%w: number %.60q", ErrFormat, s)
	}
	return v, nil
}

func parseHandle(s string) (string, error) {
	handle, err := hex.DecodeString(s)
	if err != nil || !isHandle(string(handle)) || hex.EncodeToString(handle) != s {
		return "", fmt.Errorf("%w: handle %.60q", ErrFormat, s)
	}
	return string(handle), nil
}

// formatTime writes seconds since the Unix epoch with nine decimals. RFC 3339
// would end with the year 9999, and any user can set a later time on a file.
func formatTime(t time.Time) string {
	sec, nsec, sign := t.Unix(), int64(t.Nanosecond()), ""
	magnitude := uint64(sec)
	if sec < 0 {
		sign, magnitude = "-", -magnitude
		if nsec != 0 {
			magnitude, nsec = magnitude-1, 1e9-nsec
		}
	}
	return fmt.Sprintf("%s%d.%09d", sign, magnitude, nsec)
}

func parseTime(s string) (time.Time, error) {
	text, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	sec, err := strconv.ParseUint(whole, 10, 64)
	nsec, ferr := strconv.ParseUint(fraction, 10, 32)
	if err != nil || ferr != nil {
		return time.Time{}, fmt.Errorf("%w: time %.60q", ErrFormat, s)
	}
	// Seconds beyond 63 bits come out as others, and then do not write back as s.
	at := time.Unix(int64(sec), int64(nsec))
	if negative {
		at = time.Unix(-int64(sec), -int64(nsec))
	}
	if formatTime(at) != s {
		return time.Time{}, fmt.Errorf("%w: time %.60q", ErrFormat, s)
	}
	return at.UTC(), nil
}

// modeBits are what the written form of a mode can carry.
const modeBits = fs.ModeType | fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

var special = [...]struct {
	mode fs.FileMode
	unix uint32
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

// formatMode writes st_mode of Unix in octal, which readers in other languages
// know: "0100644".
func formatMode(m fs.FileMode) string {
	bits := kindOf(m).unix | uint32(m.Perm())
	for _, s := range special {
		if m&s.mode != 0 {
			bits |= s.unix
		}
	}
	return "0" + strconv.FormatUint(uint64(bits), 8)
}

func parseMode(s string) (fs.FileMode, error) {
	bits, err := strconv.ParseUint(s, 8, 16)
	m := fs.FileMode(bits) & fs.ModePerm
	for _, k := range kinds {
		if k.unix == uint32(bits)&0o170000 {
			m |= k.mode
		}
	}
	for _, b := range special {
		if uint32(bits)&b.unix != 0 {
			m |= b.mode
		}
	}
	if err != nil || formatMode(m) != s {
		return 0, fmt.Errorf("%w: mode %.60q", ErrFormat, s)
	}
	return m, nil
}
