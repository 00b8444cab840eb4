package fuzz_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/caproot/caproot"
)

const policySeed = `{"rights":["read","list","create","share"],"links":"resolve-in-root","mutation_links":"follow-parents",` +
	`"link_targets":"any","hardlinks":"allow","mounts":"cross","special":"allow","modes":"7777","names":"darwin",` +
	`"max_read_bytes":"72057594037932383","max_write_bytes":"unlimited","durability":"volatile","bind":"handle","containment":"walked"}`

// FuzzPolicyJSON: no text makes reading panic; what reads can be written and
// reads back as the same policy; what does not read leaves the policy alone.
func FuzzPolicyJSON(f *testing.F) {
	f.Add([]byte(policySeed))
	for _, piece := range [][2]string{
		{`"links"`, `"LINKS"`},
		{`"links"`, `"l\u0069nks"`},
		{`"mounts"`, `"links"`},
		{`"cross"`, `null`},
		{`["read","list","create","share"]`, `["read","read"]`},
		{`["read","list","create","share"]`, `null`},
		{`7777`, `0o77`},
		{`72057594037932383`, `9223372036854775807`}, // case 70
		{`72057594037932383`, `9223372036854775808`},
		{`"volatile"`, `"\ud800"`}, // case 67
		{`"names":"darwin",`, ``},
		{`}`, `,"later":{}}`},
		{`}`, `}{}`},
	} {
		f.Add([]byte(strings.Replace(policySeed, piece[0], piece[1], 1)))
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := caproot.Extract()
		if err := p.UnmarshalJSON(text); err != nil {
			if !errors.Is(err, caproot.ErrFormat) || p != caproot.Extract() {
				t.Fatalf("refused with %v, and the policy is %v", err, p)
			}
			return
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%v does not write: %v", p, err)
		}
		var back caproot.Policy
		if err := json.Unmarshal(written, &back); err != nil || back != p {
			t.Fatalf("%v went through %s and is %v, %v", p, written, back, err)
		}
	})
}
