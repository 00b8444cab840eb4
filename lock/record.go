package lock

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Names beside a target.
const (
	recordSuffix = ".lock"
	guardSuffix  = ".reclaim"
	queueSuffix  = ".queue"
	// privatePrefix begins the names of records that are not published.
	privatePrefix = ".caproot-lock-"
)

// errLocked is flock's answer when another open file has the lock.
var errLocked = errors.New("another open file has the lock")

// recordID names a file while somebody has it open.
type recordID struct{ dev, ino uint64 }

// known is false where the system gave no numbers.
func (id recordID) known() bool { return id.ino != 0 }

// object is what the system tells of an open file.
type object struct {
	id                 recordID
	nlink              uint64
	size               int64
	regular, directory bool
	uid                uint32
	mtime              time.Time
}

// A record is the JSON of its payload and two lines of white space, which a
// reader of JSON does not see:
//
//	payload LF witness LF token LF
//
// The token is that of the fs-safe protocol: 8 tabs and 128 bits, tab for 1, the
// highest first. The witness line says that the maker locks the record for
// as long as it holds it: the preamble, then the bits of witness. It names the
// inode, so a copy or a restored record is no witness record.
const (
	tokenBytes   = 16
	tokenMark    = "\t\t\t\t\t\t\t\t"
	tokenLine    = len(tokenMark) + 8*tokenBytes
	witnessMark  = " \t \t \t \t"
	witnessBytes = 1 + 1 + 8 + 8 + 4
	witnessLine  = len(witnessMark) + 8*witnessBytes
)

const witnessVersion = 1

// witness is the content of a witness line.
type witness struct {
	flags byte   // how the file system looked to the maker, see viewOf
	boot  uint64 // hash of the kernel's boot id, 0 where unknown
	inode uint64
}

func (w witness) encode() (b [witnessBytes]byte) {
	b[0], b[1] = witnessVersion, w.flags
	binary.BigEndian.PutUint64(b[2:], w.boot)
	binary.BigEndian.PutUint64(b[10:], w.inode)
	binary.BigEndian.PutUint32(b[18:], checksum(b[:18]))
	return b
}

// checksum is crc32.ChecksumIEEE, which would have p on the heap.
func checksum(p []byte) uint32 {
	sum := ^uint32(0)
	for _, b := range p {
		sum = crc32.IEEETable[byte(sum)^b] ^ sum>>8
	}
	return ^sum
}

func decodeWitness(b [witnessBytes]byte) (witness, bool) {
	w := witness{b[1], binary.BigEndian.Uint64(b[2:]), binary.BigEndian.Uint64(b[10:])}
	return w, b == w.encode()
}

// appendRecord adds the lines after the payload. A nil witness makes no
// witness line.
func appendRecord(payload []byte, w *witness, token [tokenBytes]byte) []byte {
	record := append(payload, '\n')
	if w != nil {
		bits := w.encode()
		record = append(appendBits(append(record, witnessMark...), bits[:]), '\n')
	}
	return append(appendBits(append(record, tokenMark...), token[:]), '\n')
}

// fourBits are the spellings of half a byte.
var fourBits = [16]string{
	"    ", "   \t", "  \t ", "  \t\t", " \t  ", " \t \t", " \t\t ", " \t\t\t",
	"\t   ", "\t  \t", "\t \t ", "\t \t\t", "\t\t  ", "\t\t \t", "\t\t\t ", "\t\t\t\t",
}

func appendBits(line, bits []byte) []byte {
	for _, b := range bits {
		line = append(append(line, fourBits[b>>4]...), fourBits[b&15]...)
	}
	return line
}

func readBits(line []byte, bits []byte) bool {
	for i, c := range line {
		switch c {
		case '\t':
			bits[i/8] |= 1 << (7 - i%8)
		case ' ':
		default:
			return false
		}
	}
	return len(line) == 8*len(bits)
}

// splitRecord takes a record apart. A record of another maker may lack the
// witness line, or the token, or both.
func splitRecord(record []byte) (payload []byte, w witness, marked bool) {
	body, token, ok := cutLine(record, tokenLine)
	if !ok || !readBits(token[len(tokenMark):], make([]byte, tokenBytes)) || string(token[:len(tokenMark)]) != tokenMark {
		return record, witness{}, false
	}
	payload, line, ok := cutLine(body, witnessLine)
	var bits [witnessBytes]byte
	if !ok || string(line[:len(witnessMark)]) != witnessMark || !readBits(line[len(witnessMark):], bits[:]) {
		return body, witness{}, false
	}
	if w, marked = decodeWitness(bits); !marked {
		return body, witness{}, false
	}
	return payload, w, true
}

// cutLine takes a last line of the length size off, which must follow another.
func cutLine(text []byte, size int) (rest, line []byte, ok bool) {
	start := len(text) - size - 1
	if start < 1 || text[len(text)-1] != '\n' || text[start-1] != '\n' {
		return text, nil, false
	}
	return text[:start], text[start : len(text)-1], true
}

func newToken() (token [tokenBytes]byte) {
	rand.Read(token[:])
	return token
}

// encodePayload writes JSON as JSON.stringify(payload, null, 2) does.
func encodePayload(payload any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(payload); err != nil {
		return nil, fmt.Errorf("lock payload: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encodeFitting refuses a payload that no record can hold.
func encodeFitting(payload any) ([]byte, error) {
	text, err := encodePayload(payload)
	if err == nil && len(text)+tokenLine+2 > MaxRecordBytes {
		err = fmt.Errorf("lock payload of %d bytes: %w", len(text), ErrTooLarge)
	}
	return text, err
}

// parseObject is the default of Options.Parse.
func parseObject(record []byte) (any, error) {
	var object map[string]any
	if json.Unmarshal(record, &object) != nil || object == nil {
		return nil, nil
	}
	return object, nil
}

// defaultPayload tells who holds. It has no createdAt on purpose: peers would
// judge the age by it and not by the refreshed modification time.
func defaultPayload() []byte {
	text := append(make([]byte, 0, 512), defaultHead()...)
	return append(time.Now().UTC().AppendFormat(text, "2006-01-02T15:04:05.000Z"), "\"\n}"...)
}

// defaultHead is the payload up to the time.
var defaultHead = sync.OnceValue(func() []byte {
	who := struct {
		PID    int    `json:"pid"`
		Host   string `json:"host,omitempty"`
		BootID string `json:"bootId,omitempty"`
		Since  string `json:"acquiredAt"`
	}{os.Getpid(), hostName(), bootID(), ""}
	text, err := encodePayload(who)
	if err != nil {
		return []byte("{\n  \"acquiredAt\": \"")
	}
	return bytes.TrimSuffix(text, []byte("\"\n}"))
})

var hostName = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

var bootHash = sync.OnceValue(func() uint64 {
	if bootID() == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(bootID()))
	return binary.BigEndian.Uint64(sum[:])
})

// readRecord reads the whole record, bounded, in one go.
func readRecord(f *os.File, size int64) ([]byte, error) {
	if size > MaxRecordBytes {
		return nil, ErrTooLarge
	}
	buf := make([]byte, size+1)
	for {
		n, err := f.ReadAt(buf, 0)
		switch {
		case err != nil && err != io.EOF:
			return nil, err
		case n < len(buf):
			return buf[:n], nil
		case n > MaxRecordBytes:
			return nil, ErrTooLarge
		}
		// It grew since its size was taken.
		buf = make([]byte, min(2*len(buf), MaxRecordBytes+1))
	}
}
