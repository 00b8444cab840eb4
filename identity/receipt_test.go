package identity_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
	"pgregory.net/rapid"
)

const digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func full() identity.Receipt {
	return identity.Receipt{
		Op: "put", Path: "src/main.go", ID: whole(), Root: identity.ID{Dev: 0xfe00, Ino: 2, Type: fs.ModeDir},
		Ancestry: []identity.ID{{Dev: 0xfe00, Ino: 3, Type: fs.ModeDir}},
		Size:     5, Mode: 0o644, Nlink: 1, ModTime: time.Unix(1796099980, 207822204).UTC(), SHA256: digest,
		Containment: identity.Walked, Durability: identity.DurabilityFile, Asked: identity.DurabilityDir,
		Published: identity.Created, Lost: []string{"o_tmpfile", "dir-sync"},
	}
}

func TestReceiptCompare(t *testing.T) {
	type Receipt = identity.Receipt
	tests := []struct {
		name string
		edit func(r, now *Receipt)
		want identity.Verdict
		why  identity.Reason
	}{
		{"equal", func(r, now *Receipt) {}, identity.Same, identity.ProofHandle},
		{"size", func(r, now *Receipt) { now.Size++ }, identity.Different, identity.BySize},
		{"digest", func(r, now *Receipt) { now.SHA256 = strings.Repeat("0", 64) }, identity.Different, identity.ByDigest},
		{"digest of one side", func(r, now *Receipt) { now.SHA256 = "" }, identity.Same, identity.ProofHandle},
		{"digest of the other", func(r, now *Receipt) { r.SHA256 = "" }, identity.Same, identity.ProofHandle},
		{"identity before size", func(r, now *Receipt) { now.ID.Ino++; now.Size++ }, identity.Different, identity.ByFileNumber},
		{"case 75: size where the mounts decide nothing", func(r, now *Receipt) {
			r.ID.Handle, now.ID.Handle, now.ID.Mount = "", "", 1
			now.Size++
		}, identity.Different, identity.BySize},
		{"case 71: equal content is no identity", func(r, now *Receipt) { r.ID, now.ID = identity.ID{}, identity.ID{} }, identity.Unknown, identity.NoIdentity},
		{"case 78: equal times are no identity", func(r, now *Receipt) {
			numbers := identity.ID{Dev: r.ID.Dev, Ino: r.ID.Ino}
			r.ID, now.ID = numbers, numbers
		}, identity.Unknown, identity.ReusableNumber},
		{"case 78: another time is no other object", func(r, now *Receipt) { now.ModTime = now.ModTime.Truncate(time.Second) }, identity.Same, identity.ProofHandle},
		{"mode, links, name and claims are not compared", func(r, now *Receipt) {
			now.Mode, now.Nlink, now.Path, now.Op, now.Published = 0o600, 2, "b", "receipt", identity.Unpublished
		}, identity.Same, identity.ProofHandle},
		{"size of a directory is not compared", func(r, now *Receipt) {
			r.ID.Type, now.ID.Type, r.Mode, now.Mode = fs.ModeDir, fs.ModeDir, fs.ModeDir, fs.ModeDir
			now.Size = 8192
		}, identity.Same, identity.ProofHandle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, now := full(), full()
			tt.edit(&r, &now)
			for range 2 {
				if v, why := r.Compare(now); v != tt.want || why != tt.why {
					t.Errorf("%v, %s, want %v, %s", v, why, tt.want, tt.why)
				}
				r, now = now, r
			}
		})
	}
}

func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, r identity.Receipt) []byte {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	var back identity.Receipt
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !reflect.DeepEqual(back, r) {
		t.Fatalf("%+v went through\n%s and is\n%+v", r, text, back)
	}
	return text
}

func TestReceiptRoundTrip(t *testing.T) {
	roundTrip(t, identity.Receipt{Path: "."})
	roundTrip(t, full())
}

// Case 67: a name is bytes, and JSON strings are not.
func TestReceiptPathIsByteExact(t *testing.T) {
	for _, tt := range []struct{ name, path, want string }{
		{"plain", "a/b", `"path":"a/b"`},
		{"the root", ".", `"path":"."`},
		{"byte 0xff", "a\xff", `"path_b64":"Yf8="`},
		{"overlong slash", "a\xc0\xafb", `"path_b64":`},
		{"surrogate of WTF-8", "a\xed\xa0\x80", `"path_b64":`},
		{"cut off", "a\xe2\x82", `"path_b64":`},
		{"the replacement character itself", "a\ufffd", "\"path\":\"a\ufffd\""},
		{"beyond the basic plane", "a\U0001F512", `"path":`},
		{"text of an escape", `a\ud800`, `"path":"a\\ud800"`},
		{"control characters", "a\x01\x1b[2J\n", `"path":"a\u0001\u001b[2J\n"`},
		{"line separators and markup", "a\u2028<&>", `"path":`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := full()
			r.Path = tt.path
			if text := roundTrip(t, r); !bytes.Contains(text, []byte(tt.want)) {
				t.Errorf("%s lacks %s", text, tt.want)
			}
		})
	}
}

// Any user can set times that RFC 3339 and 64 bits of nanoseconds cannot hold.
func TestReceiptTimes(t *testing.T) {
	for text, at := range map[string]time.Time{
		"0.000000000":                    time.Unix(0, 0),
		"0.000000001":                    time.Unix(0, 1),
		"-0.000000001":                   time.Unix(-1, 999999999),
		"-1.000000000":                   time.Unix(-1, 0),
		"-1.500000000":                   time.Unix(-2, 500000000),
		"1796099980.207822204":           time.Unix(1796099980, 207822204),
		"253402300800.000000000":         time.Unix(253402300800, 0), // the year 10000
		"-62135596800.000000000":         {},
		"9223372036854775807.999999999":  time.Unix(math.MaxInt64, 999999999),
		"-9223372036854775808.000000000": time.Unix(math.MinInt64, 0),
	} {
		r := full()
		r.ModTime = at.UTC()
		if got := roundTrip(t, r); !bytes.Contains(got, []byte(`"mtime":"`+text+`"`)) {
			t.Errorf("%v is written %s, want %s", at, got, text)
		}
	}
}

func TestReceiptModes(t *testing.T) {
	for text, mode := range map[string]fs.FileMode{
		"0100644": 0o644,
		"0100000": 0,
		"040755":  fs.ModeDir | 0o755,
		"041777":  fs.ModeDir | fs.ModeSticky | 0o777,
		"0106755": fs.ModeSetuid | fs.ModeSetgid | 0o755,
		"0120777": fs.ModeSymlink | 0o777,
		"010600":  fs.ModeNamedPipe | 0o600,
		"0140600": fs.ModeSocket | 0o600,
		"060660":  fs.ModeDevice | 0o660,
		"020666":  fs.ModeDevice | fs.ModeCharDevice | 0o666,
		"0600":    fs.ModeIrregular | 0o600,
		"00":      fs.ModeIrregular,
	} {
		r := full()
		r.Mode = mode
		if got := roundTrip(t, r); !bytes.Contains(got, []byte(`"mode":"`+text+`"`)) {
			t.Errorf("%v is written %s, want %s", mode, got, text)
		}
	}
}

func TestReceiptRoundTripProperty(t *testing.T) {
	code := rapid.StringMatching(`[a-z0-9_.-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		r := identity.Receipt{
			Op: rapid.OneOf(rapid.Just(""), code).Draw(t, "op"), Path: paths().Draw(t, "path"),
			ID: ids().Draw(t, "id"), Root: ids().Draw(t, "root"), Ancestry: rapid.SliceOfN(ids(), 1, 3).Draw(t, "ancestry"),
			Size: rapid.Int64Min(0).Draw(t, "size"), Nlink: rapid.Uint64().Draw(t, "nlink"),
			Mode:        fs.FileMode(rapid.Uint32Range(0, 0o777).Draw(t, "mode")),
			ModTime:     time.Unix(rapid.Int64().Draw(t, "sec"), rapid.Int64Range(0, 999999999).Draw(t, "nsec")).UTC(),
			Containment: identity.Containment(rapid.Uint8Range(0, 1).Draw(t, "containment")),
			Durability:  identity.Durability(rapid.Uint8Range(0, 4).Draw(t, "durability")),
			Published:   identity.Publication(rapid.Uint8Range(0, 5).Draw(t, "published")),
			Lost:        rapid.SliceOfN(code, 1, 3).Draw(t, "lost"),
		}
		for _, id := range []*identity.ID{&r.ID, &r.Root, &r.Ancestry[0], &r.Ancestry[len(r.Ancestry)-1], &r.Ancestry[len(r.Ancestry)/2]} {
			if !id.HasGen {
				id.Gen = 0 // without meaning, and not written
			}
			if !id.HasBirth {
				id.Birth = 0
			}
		}
		roundTrip(t, r)
	})
}

func TestReceiptRefusesToWrite(t *testing.T) {
	for name, edit := range map[string]func(*identity.Receipt){
		"negative size":      func(r *identity.Receipt) { r.Size = -1 },
		"mode of Plan 9":     func(r *identity.Receipt) { r.Mode |= fs.ModeExclusive },
		"digest in capitals": func(r *identity.Receipt) { r.SHA256 = strings.ToUpper(digest) },
		"digest cut":         func(r *identity.Receipt) { r.SHA256 = digest[2:] },
		"op for a terminal":  func(r *identity.Receipt) { r.Op = "put\x1b[2J" },
		"empty lost code":    func(r *identity.Receipt) { r.Lost = []string{""} },
		"long lost code":     func(r *identity.Receipt) { r.Lost = []string{strings.Repeat("a", 65)} },
		"containment":        func(r *identity.Receipt) { r.Containment = 2 },
		"durability":         func(r *identity.Receipt) { r.Durability = 5 },
		"asked":              func(r *identity.Receipt) { r.Asked = 5 },
		"published":          func(r *identity.Receipt) { r.Published = 6 },
		"handle":             func(r *identity.Receipt) { r.Root.Handle = strings.Repeat("h", 133) },
		"handle of a type":   func(r *identity.Receipt) { r.ID.Handle = "\x00\x00\x00\x01" },
		"no path":            func(r *identity.Receipt) { r.Path = "" },
		"absolute path":      func(r *identity.Receipt) { r.Path = "/a" },
		"path that climbs":   func(r *identity.Receipt) { r.Path = "a/.." },
		"path with NUL":      func(r *identity.Receipt) { r.Path = "a\x00" },
		"length":             func(r *identity.Receipt) { r.Path = strings.Repeat("a", identity.MaxReceiptBytes) },
	} {
		t.Run(name, func(t *testing.T) {
			r := full()
			edit(&r)
			if text, err := r.MarshalJSON(); !errors.Is(err, identity.ErrFormat) {
				t.Errorf("wrote %.200s, %v, want ErrFormat", text, err)
			}
		})
	}
}

// edited returns the written form of a full receipt with one piece replaced.
func edited(t *testing.T, old, with string) []byte {
	t.Helper()
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(text, []byte(old)) != 1 {
		t.Fatalf("%q does not stand once in %s", old, text)
	}
	return bytes.Replace(text, []byte(old), []byte(with), 1)
}

// refusedReceipts are edits of the written form of a full receipt.
var refusedReceipts = []struct{ name, old, with string }{
	{"version as text", `"v":1`, `"v":"1"`},
	{"version missing", `"v":1,`, ``},
	{"version with a fraction", `"v":1`, `"v":1.0`},
	{"case 67: byte that is not UTF-8", `src/main.go`, "src/\xff"},
	{"case 67: half a surrogate pair", `src/main.go`, `src/\ud800`},
	{"case 67: the other half", `src/main.go`, `src/\udfff`},
	{"case 67: halves in the wrong order", `src/main.go`, `src/\udfff\ud800`},
	{"case 67: half after an escaped backslash", `src/main.go`, `src/\\\ud800x`},
	{"path in the wrong field", `"path":"src/main.go"`, `"path_b64":"c3Jj"`},
	{"path in both", `"path":"src/main.go"`, `"path":"a","path_b64":"Yf8="`},
	{"base64 with a line break", `"path":"src/main.go"`, `"path_b64":"Yf8=\n"`},
	{"base64 with stray bits", `"path":"src/main.go"`, `"path_b64":"Yf9="`},
	{"no path", `"path":"src/main.go",`, ``},
	{"path twice", `"path":`, `"path":"etc/passwd","path":`},
	{"path in another case only", `"path":`, `"Path":`},
	{"size as number", `"size":"5"`, `"size":5`},
	{"size negative", `"size":"5"`, `"size":"-5"`},
	{"size beyond 63 bits", `"size":"5"`, `"size":"9223372036854775808"`},
	{"size missing", `"size":"5",`, ``},
	{"id null", `"root":{`, `"root":null,"x":{`},
	{"id in ancestry null", `"ancestry":[`, `"ancestry":[null,`},
	{"id in ancestry malformed", `"ancestry":[{`, `"ancestry":[{"dev":"1",`},
	{"mode without type", `"mode":"0100644"`, `"mode":"0170644"`},
	{"mode decimal", `"mode":"0100644"`, `"mode":"100644"`},
	{"mode not octal", `"mode":"0100644"`, `"mode":"0100648"`},
	{"mode too large", `"mode":"0100644"`, `"mode":"0300644"`},
	{"links negative", `"nlink":"1"`, `"nlink":"-1"`},
	{"time of RFC 3339", `1796099980.207822204`, `2026-12-01T00:00:00Z`},
	{"time with few decimals", `1796099980.207822204`, `1796099980.2`},
	{"time with many decimals", `1796099980.207822204`, `1796099980.2078222040`},
	{"time without decimals", `1796099980.207822204`, `1796099980`},
	{"time with two signs", `1796099980.207822204`, `--1.000000000`},
	{"time minus zero", `1796099980.207822204`, `-0.000000000`},
	{"time too late", `1796099980.207822204`, `9223372036854775808.000000000`},
	{"digest cut", digest, digest[1:]},
	{"digest in capitals", digest, strings.ToUpper(digest)},
	{"containment missing reads not as the strongest", `"containment":"walked",`, ``},
	{"containment unknown", `"walked"`, `"perfect"`},
	{"durability as number", `"durability":"file"`, `"durability":0`},
	{"lost with a control character", `"o_tmpfile"`, `"\u001b[2J"`},
	{"lost as text", `["o_tmpfile","dir-sync"]`, `"o_tmpfile"`},
	{"lost null", `"o_tmpfile"`, `null`},
	{"time too early", `1796099980.207822204`, `-9223372036854775809.000000000`},
	{"time far too late", `1796099980.207822204`, `18446744073709551615.000000000`},
	{"op null", `"op":"put"`, `"op":null`},
	{"path null", `"path":"src/main.go"`, `"path":null`},
	{"lost all null", `["o_tmpfile","dir-sync"]`, `null`},
	{"ancestry null", `"ancestry":[`, `"ancestry":null,"x":[`},
	{"version null", `"v":1`, `"v":null`},
	{"op missing", `"op":"put",`, ``},
	{"op with a space", `"op":"put"`, `"op":"put it"`},
}

func TestReceiptRefusesToRead(t *testing.T) {
	for _, tt := range slices.Concat(refusedReceipts, refusedNames) {
		t.Run(tt.name, func(t *testing.T) {
			text, r := edited(t, tt.old, tt.with), identity.Receipt{Op: "before"}
			if err := r.UnmarshalJSON(text); !errors.Is(err, identity.ErrFormat) {
				t.Errorf("%s reads as %+v, %v, want ErrFormat", text, r, err)
			}
			if !reflect.DeepEqual(r, identity.Receipt{Op: "before"}) {
				t.Errorf("%s changed the receipt to %+v", text, r)
			}
		})
	}
}

func TestReceiptReads(t *testing.T) {
	for name, piece := range map[string][2]string{
		"unknown fields":         {`"op":`, `"later":[{"v":2}],"PATH":"x","op":`},
		"a surrogate pair":       {`src/main.go`, `src/\ud83d\udd12`},
		"escapes of a backslash": {`src/main.go`, `src\\ud800`},
		"empty lost":             {`["o_tmpfile","dir-sync"]`, `[]`},
		"empty ancestry":         {`"ancestry":[`, `"ancestry":[],"x":[`},
		"white space":            {`"op":`, " \n\t\"op\" : "},
	} {
		t.Run(name, func(t *testing.T) {
			var r identity.Receipt
			if err := json.Unmarshal(edited(t, piece[0], piece[1]), &r); err != nil {
				t.Fatal(err)
			}
			roundTrip(t, r)
		})
	}
}

func TestReceiptVersion(t *testing.T) {
	// Nothing but the version is looked at: another one may change all the rest.
	for text, want := range map[string]uint64{`{"v":2}`: 2, `{"v":0,"op":5}`: 0, `{"id":null,"v":18446744073709551615}`: math.MaxUint64} {
		var r identity.Receipt
		err := json.Unmarshal([]byte(text), &r)
		var version *identity.VersionError
		if !errors.As(err, &version) || version.Version != want || !errors.Is(err, identity.ErrFormat) {
			t.Errorf("%s: %v, want a VersionError of %d", text, err, want)
		}
	}
}

func TestReceiptLength(t *testing.T) {
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	pad := bytes.Repeat([]byte(" "), identity.MaxReceiptBytes-len(text))
	longest := append(bytes.Clone(text), pad...)
	var r identity.Receipt
	if err := r.UnmarshalJSON(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	if err := r.UnmarshalJSON(append(longest, ' ')); !errors.Is(err, identity.ErrFormat) {
		t.Errorf("%d bytes: %v, want ErrFormat", len(longest)+1, err)
	}
}

// The limit is documented as an ancestry of a thousand.
func TestReceiptLengthOfDeepAncestry(t *testing.T) {
	r := full()
	for range 1000 {
		r.Ancestry = append(r.Ancestry, whole())
	}
	roundTrip(t, r)
}

func TestReceiptDeepNesting(t *testing.T) {
	deep := strings.Repeat(`[`, 200000)
	var r identity.Receipt
	if err := r.UnmarshalJSON(edited(t, `"v":1`, `"v":1,"x":`+deep)); !errors.Is(err, identity.ErrFormat) {
		t.Errorf("%v, want ErrFormat", err)
	}
}

func TestDocumentedReceiptReads(t *testing.T) {
	page, err := os.ReadFile("../docs/receipts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := bytes.Cut(page, []byte("```json\n"))
	sample, _, found := bytes.Cut(sample, []byte("```"))
	if !found {
		t.Fatal("no sample on the page")
	}
	var r identity.Receipt
	if err := json.Unmarshal(sample, &r); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, r)
}
