package fuzz_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

const receiptSeed = `{"v":1,"op":"put","path":"a/b","id":{"type":"file","dev":"65024","ino":"72057594037932383","mount":"2147483676",` +
	`"gen":"7","birth_ns":"-1","handle":"00000001864098003cff4442"},"root":{"type":"dir","dev":"65024","ino":"2"},` +
	`"ancestry":[{"type":"dir","dev":"65024","ino":"3"}],"size":"5","mode":"0100644","nlink":"1","mtime":"-0.500000000",` +
	`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","containment":"walked","durability":"file",` +
	`"asked":"dir","published":"created","lost":["dir-sync"]}`

// FuzzReceiptDecode: no text makes decoding panic, what reads can be written,
// and what is written reads as the same receipt.
func FuzzReceiptDecode(f *testing.F) {
	f.Add([]byte(receiptSeed))
	for _, piece := range [][2]string{
		{`"path":"a/b"`, `"path_b64":"Yf8="`},                      // case 67
		{`"path":"a/b"`, `"path":"\ud83d\udd12\ud800"`},            // case 67
		{`72057594037932383`, `18446744073709551615`},              // case 70
		{`"dev":"65024","ino":"2"`, `"dev":"0","ino":"0"`},         // case 71
		{`"dev":"65024","ino":"3"`, `"dev":"9223372036854775808"`}, // case 76
		{`-0.500000000`, `9223372036854775807.999999999`},
		{`"v":1`, `"v":2`},
		{`"v":1`, `"V":1,"later":[[[{}]]],"v":1`},
		{`"0100644"`, `"0176777"`},
	} {
		f.Add([]byte(strings.Replace(receiptSeed, piece[0], piece[1], 1)))
	}
	f.Add([]byte(`null`))
	f.Add([]byte(`{"v":1`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r identity.Receipt
		if r.UnmarshalJSON(text) == nil {
			receiptReadsBack(t, r)
		}
	})
}

func receiptReadsBack(t *testing.T, r identity.Receipt) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("%+v does not write: %v", r, err)
	}
	var back identity.Receipt
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("%s does not read: %v", text, err)
	}
	if !reflect.DeepEqual(back, r) {
		t.Fatalf("%+v went through\n%s and is\n%+v", r, text, back)
	}
	if v, why := r.Compare(back); v == identity.Different {
		t.Fatalf("%s differs from itself: %s", text, why)
	}
}

// FuzzReceiptEncode: a receipt of any path, numbers and time either is refused
// or reads back byte exact.
func FuzzReceiptEncode(f *testing.F) {
	f.Add("a/b", "put", uint64(65024), uint64(72057594037932383), "\x00\x00\x00\x01handle", int64(5), uint32(0o644), int64(1796099980), int64(1))
	f.Add("a\xff", "receipt", uint64(1)<<63, ^uint64(0), "", int64(0), uint32(fs.ModeDir|0o755), int64(-1)<<63, int64(999999999))
	f.Add("a\xed\xa0\x80", "\x1b[2J", uint64(0), uint64(0), strings.Repeat("h", 133), int64(-1), uint32(fs.ModeExclusive), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, path, op string, dev, ino uint64, handle string, size int64, mode uint32, sec, nsec int64) {
		r := identity.Receipt{
			Path: path, Op: op, ID: identity.ID{Dev: dev, Ino: ino, Handle: handle},
			Size: size, Mode: fs.FileMode(mode), ModTime: time.Unix(sec, nsec).UTC(),
		}
		text, err := json.Marshal(r)
		if errors.Is(err, identity.ErrFormat) {
			return
		}
		if err != nil {
			t.Fatalf("%+v does not write: %v", r, err)
		}
		var back identity.Receipt
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s does not read: %v", text, err)
		}
		// A mixture of types is written as one kind.
		if back.Mode.Perm() != r.Mode.Perm() {
			t.Fatalf("mode %v is %v", r.Mode, back.Mode)
		}
		r.Mode, back.Mode = 0, 0
		if !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v went through\n%s and is\n%+v", r, text, back)
		}
	})
}

// FuzzID: the text form of an ID has one spelling and says what JSON says.
func FuzzID(f *testing.F) {
	f.Add("type=file dev=65024 ino=72057594037932383 ino-high=1 mount=2147483676 gen=7 birth=-1 handle=00000001864098003cff4442")
	f.Add("type=dir dev=9223372036854775808 ino=0")
	f.Add("type=file dev=01 ino=+1")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := identity.ParseID(text)
		if err != nil {
			return
		}
		if id.String() != text {
			t.Fatalf("%q reads and writes %q", text, id)
		}
		form, err := json.Marshal(id)
		if err != nil {
			t.Fatalf("%q does not write: %v", text, err)
		}
		var back identity.ID
		if err := json.Unmarshal(form, &back); err != nil || back != id {
			t.Fatalf("%q went through %s and is %v, %v", text, form, back, err)
		}
	})
}
