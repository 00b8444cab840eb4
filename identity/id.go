package identity

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// ID is the evidence of which object something is. It is comparable, but two
// equal values are not proof of one object: use [Compare].
type ID struct {
	// Dev is the device number as the kernel gave it, unsigned. Numbers of
	// anonymous devices may change over a reboot; see the package documentation.
	Dev uint64
	// Mount is the unique mount id (statx STATX_MNT_ID_UNIQUE, Linux 6.8), unique
	// until the next boot. 0 is unknown.
	Mount uint64
	// Ino is the file number, or its low 64 bits.
	Ino uint64
	// InoHigh has the high 64 bits of a 128-bit file number (ReFS), else 0.
	InoHigh uint64
	// Gen is the inode generation. It means something only if HasGen.
	Gen    uint64
	HasGen bool
	// Birth is the birth time in nanoseconds since the Unix epoch. It means
	// something only if HasBirth.
	Birth    int64
	HasBirth bool
	// Handle is the kernel's file handle: four bytes of type, big endian, then
	// the handle's bytes (name_to_handle_at, Linux 2.6.39). "" is unknown. It is
	// evidence for comparison only and opens nothing by itself. The text forms
	// carry from 5 to 132 bytes.
	Handle string
	// Type has the type bits of the mode.
	Type fs.FileMode
}

// maxHandle is MAX_HANDLE_SZ of linux/exportfs.h and the four bytes of type.
const maxHandle = 4 + 128

// isHandle reports whether a handle has a type and something after it.
func isHandle(handle string) bool { return len(handle) > 4 && len(handle) <= maxHandle }

// Known reports whether the ID has a device and a file number. Either is 0 where
// the system did not say, as on Windows when a filter driver stands between;
// Linux gives no mounted file system the device number 0.
func (id ID) Known() bool { return id.Dev != 0 && (id.Ino != 0 || id.InoHigh != 0) }

// String gives the ID as words "key=value" on one line. [ParseID] reads it back.
func (id ID) String() string {
	b := make([]byte, 0, 128)
	b = append(b, "type="...)
	b = append(b, kindOf(id.Type).name...)
	number := func(key string, v uint64) {
		b = append(b, key...)
		b = strconv.AppendUint(b, v, 10)
	}
	number(" dev=", id.Dev)
	number(" ino=", id.Ino)
	if id.InoHigh != 0 {
		number(" ino-high=", id.InoHigh)
	}
	if id.Mount != 0 {
		number(" mount=", id.Mount)
	}
	if id.HasGen {
		number(" gen=", id.Gen)
	}
	if id.HasBirth {
		b = append(b, " birth="...)
		b = strconv.AppendInt(b, id.Birth, 10)
	}
	if id.Handle != "" {
		b = append(b, " handle="...)
		b = hex.AppendEncode(b, []byte(id.Handle))
	}
	return string(b)
}

// ParseID reads what String writes and nothing else. It returns an error that
// wraps ErrFormat for any other text.
func ParseID(s string) (ID, error) {
	var id ID
	for word := range strings.SplitSeq(s, " ") {
		key, value, _ := strings.Cut(word, "=")
		if err := id.set(key, value); err != nil {
			return ID{}, err
		}
	}
	if id.String() != s {
		return ID{}, fmt.Errorf("%w: the words of an ID in another order or form: %.60q", ErrFormat, s)
	}
	return id, nil
}

func (id *ID) set(key, value string) (err error) {
	switch key {
	case "type":
		id.Type, err = parseKind(value)
	case "dev":
		id.Dev, err = parseUint(value)
	case "ino":
		id.Ino, err = parseUint(value)
	case "ino-high":
		id.InoHigh, err = parseUint(value)
	case "mount":
		id.Mount, err = parseUint(value)
	case "gen":
		id.Gen, err = parseUint(value)
		id.HasGen = true
	case "birth":
		id.Birth, err = parseInt(value)
		id.HasBirth = true
	case "handle":
		id.Handle, err = parseHandle(value)
	default:
		err = fmt.Errorf("%w: unknown word %.60q", ErrFormat, key)
	}
	return err
}

// kind is a type of file: its mode bits in Go and in Unix (S_IFMT), and its name.
type kind struct {
	mode fs.FileMode
	unix uint32
	name string
}

// irregular stands for every mixture of type bits without a name of its own.
var irregular = kind{fs.ModeIrregular, 0, "irregular"}

var kinds = [...]kind{
	{0, 0o100000, "file"},
	{fs.ModeDir, 0o040000, "dir"},
	{fs.ModeSymlink, 0o120000, "symlink"},
	{fs.ModeNamedPipe, 0o010000, "fifo"},
	{fs.ModeSocket, 0o140000, "socket"},
	{fs.ModeDevice, 0o060000, "block"},
	{fs.ModeDevice | fs.ModeCharDevice, 0o020000, "char"},
	irregular,
}

func kindOf(m fs.FileMode) kind {
	for _, k := range kinds {
		if k.mode == m.Type() {
			return k
		}
	}
	return irregular
}

func parseKind(name string) (fs.FileMode, error) {
	for _, k := range kinds {
		if k.name == name {
			return k.mode, nil
		}
	}
	return 0, fmt.Errorf("%w: type %.60q", ErrFormat, name)
}
