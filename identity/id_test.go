package identity_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/caproot/caproot/identity"
	"pgregory.net/rapid"
)

// forms are the two written forms of an ID.
var forms = []struct {
	name  string
	write func(identity.ID) (string, error)
	read  func(string) (identity.ID, error)
}{
	{"text", func(id identity.ID) (string, error) { return id.String(), nil }, identity.ParseID},
	{
		"JSON",
		func(id identity.ID) (string, error) { b, err := json.Marshal(id); return string(b), err },
		func(s string) (id identity.ID, err error) { return id, json.Unmarshal([]byte(s), &id) },
	},
}

func TestIDRoundTrip(t *testing.T) {
	top := uint64(1) << 63
	tests := map[string]identity.ID{
		"nothing":                          {},
		"everything":                       whole(),
		"largest":                          {Dev: ^uint64(0), Mount: ^uint64(0), Ino: ^uint64(0), InoHigh: ^uint64(0), Gen: ^uint64(0), HasGen: true},
		"case 70: beyond 2^53, even":       {Dev: 1, Ino: 72057594037932382},
		"case 70: beyond 2^53, odd":        {Dev: 1, Ino: 72057594037932383},
		"case 76: device with the top bit": {Dev: top | 0xfe00, Ino: 1},
		"case 69: generation 0 is known":   {Dev: 1, Ino: 1, HasGen: true},
		"birth before the epoch":           {Dev: 1, Ino: 1, Birth: -1, HasBirth: true},
		"birth at the epoch":               {Dev: 1, Ino: 1, HasBirth: true},
		"longest handle":                   {Dev: 1, Ino: 1, Handle: strings.Repeat("\xff", 132)},
		"directory":                        {Dev: 1, Ino: 1, Type: fs.ModeDir},
		"character device":                 {Dev: 1, Ino: 1, Type: fs.ModeDevice | fs.ModeCharDevice},
	}
	for name, id := range tests {
		for _, form := range forms {
			t.Run(name+"/"+form.name, func(t *testing.T) {
				text, err := form.write(id)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := form.read(text); err != nil || got != id {
					t.Errorf("%s reads as %v, %v", text, got, err)
				}
			})
		}
	}
}

func TestIDRoundTripProperty(t *testing.T) {
	types := []fs.FileMode{
		0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket, fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice, fs.ModeIrregular,
	}
	rapid.Check(t, func(t *rapid.T) {
		id := identity.ID{
			Dev: rapid.Uint64().Draw(t, "dev"), Mount: rapid.Uint64().Draw(t, "mount"),
			Ino: rapid.Uint64().Draw(t, "ino"), InoHigh: rapid.Uint64().Draw(t, "high"),
			HasGen: rapid.Bool().Draw(t, "has gen"), HasBirth: rapid.Bool().Draw(t, "has birth"),
			Type: rapid.SampledFrom(types).Draw(t, "type"),
		}
		if rapid.Bool().Draw(t, "has handle") {
			id.Handle = string(rapid.SliceOfN(rapid.Byte(), 5, 132).Draw(t, "handle"))
		}
		if id.HasGen {
			id.Gen = rapid.Uint64().Draw(t, "gen")
		}
		if id.HasBirth {
			id.Birth = rapid.Int64().Draw(t, "birth")
		}
		for _, form := range forms {
			text, err := form.write(id)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := form.read(text); err != nil || got != id {
				t.Fatalf("%s reads as %v, %v", text, got, err)
			}
		}
	})
}

// Case 70 and lesson 5: two numbers that are one double stay two.
func TestNumbersAreStrings(t *testing.T) {
	text, err := json.Marshal(identity.ID{Dev: 1 << 63, Ino: 72057594037932383})
	if err != nil {
		t.Fatal(err)
	}
	var asDoubles map[string]any
	if err := json.Unmarshal(text, &asDoubles); err != nil {
		t.Fatal(err)
	}
	if asDoubles["ino"] != "72057594037932383" || asDoubles["dev"] != "9223372036854775808" {
		t.Errorf("a reader that knows only doubles sees %v", asDoubles)
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := identity.ID{Dev: 1, Ino: 2, HasGen: true, Gen: 3, Handle: "\x00\x00\x00\x01abcd"}.String()
	if _, err := identity.ParseID(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", " ", "type=file", "dev=1 ino=2", "type=file ino=2 dev=1", good + " ", " " + good, good + " gen=3", good + "\n",
		"type=file dev=01 ino=2", "type=file dev=+1 ino=2", "type=file dev=-1 ino=2", "type=file dev=0x1 ino=2", "type=file dev= ino=2",
		"type=file dev=18446744073709551616 ino=2", "type=file dev=1_0 ino=2", "type=folder dev=1 ino=2", "type=file dev=1 ino=2 color=red",
		"type=file dev=1 ino=2 mount=0", "type=file dev=1 ino=2 ino-high=0", "type=file dev=1 ino=2 birth=-0",
		"type=file dev=1 ino=2 handle=", "type=file dev=1 ino=2 handle=0", "type=file dev=1 ino=2 handle=AB",
		"type=file dev=1 ino=2 handle=" + strings.Repeat("00", 133), "type=file dev=1=1 ino=2",
	} {
		if id, err := identity.ParseID(bad); !errors.Is(err, identity.ErrFormat) {
			t.Errorf("ParseID(%q) = %v, %v, want ErrFormat", bad, id, err)
		}
	}
}

func TestIDJSONRefuses(t *testing.T) {
	for name, bad := range map[string]string{
		"number as number":      `{"type":"file","dev":1,"ino":"2"}`,
		"null for a number":     `{"type":"file","dev":null,"ino":"2"}`,
		"no type":               `{"dev":"1","ino":"2"}`,
		"no device":             `{"type":"file","ino":"2"}`,
		"no number":             `{"type":"file","dev":"1"}`,
		"other case of a key":   `{"type":"file","dev":"1","Ino":"2"}`,
		"key twice":             `{"type":"file","dev":"1","ino":"2","ino":"3"}`,
		"leading zero":          `{"type":"file","dev":"1","ino":"02"}`,
		"sign":                  `{"type":"file","dev":"1","ino":"-2"}`,
		"double":                `{"type":"file","dev":"1","ino":"2e0"}`,
		"space":                 `{"type":"file","dev":"1","ino":" 2"}`,
		"too large":             `{"type":"file","dev":"1","ino":"18446744073709551616"}`,
		"null generation":       `{"type":"file","dev":"1","ino":"2","gen":null}`,
		"birth beyond 64 bits":  `{"type":"file","dev":"1","ino":"2","birth_ns":"9223372036854775808"}`,
		"birth minus zero":      `{"type":"file","dev":"1","ino":"2","birth_ns":"-0"}`,
		"birth with a sign":     `{"type":"file","dev":"1","ino":"2","birth_ns":"+1"}`,
		"empty handle":          `{"type":"file","dev":"1","ino":"2","handle":""}`,
		"handle not hex":        `{"type":"file","dev":"1","ino":"2","handle":"zz"}`,
		"handle in capitals":    `{"type":"file","dev":"1","ino":"2","handle":"AB"}`,
		"handle beyond the cap": `{"type":"file","dev":"1","ino":"2","handle":"` + strings.Repeat("00", 133) + `"}`,
		"null":                  `null`,
		"array":                 `[]`,
		"cut":                   `{"type":"file"`,
		"more after it":         `{"type":"file","dev":"1","ino":"2"}{}`,
		"nothing":               ``,
	} {
		t.Run(name, func(t *testing.T) {
			before := whole()
			id := before
			if err := id.UnmarshalJSON([]byte(bad)); !errors.Is(err, identity.ErrFormat) {
				t.Errorf("%s reads as %v, %v, want ErrFormat", bad, id, err)
			}
			if id != before {
				t.Errorf("%s changed the value to %v", bad, id)
			}
		})
	}
}

func TestIDJSONPassesOverUnknownFields(t *testing.T) {
	var id identity.ID
	text := `{"later":{"a":[1,null]},"type":"file","dev":"1","ino":"2","DEV":"9"}`
	if err := json.Unmarshal([]byte(text), &id); err != nil || id != (identity.ID{Dev: 1, Ino: 2}) {
		t.Errorf("%s reads as %v, %v", text, id, err)
	}
}

func TestIDJSONRefusesToWriteLongHandle(t *testing.T) {
	if text, err := json.Marshal(identity.ID{Handle: strings.Repeat("h", 133)}); !errors.Is(err, identity.ErrFormat) {
		t.Errorf("wrote %s, %v", text, err)
	}
}

func TestKnown(t *testing.T) {
	for _, tt := range []struct {
		id   identity.ID
		want bool
	}{
		{identity.ID{}, false},
		{identity.ID{Dev: 1}, false},
		{identity.ID{Ino: 1}, false}, // case 71
		{identity.ID{Dev: 1, Ino: 1}, true},
		{identity.ID{Dev: 1, InoHigh: 1}, true},
	} {
		if got := tt.id.Known(); got != tt.want {
			t.Errorf("Known of %v = %v", tt.id, got)
		}
	}
}
