package fuzz_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
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

// anyPolicy reads a policy from bytes: any value that has a meaning, and many
// that have none.
func anyPolicy(b []byte) (p caproot.Policy, rest []byte) {
	next := func(n int) (v uint64) {
		for range n {
			if len(b) > 0 {
				v, b = v<<8|uint64(b[0]), b[1:]
			}
		}
		return v
	}
	p = caproot.Policy{
		Rights: caproot.Rights(next(2)), Links: caproot.LinkRule(next(1) % 4), MutationLinks: caproot.LinkRule(next(1) % 4),
		LinkTargets: caproot.TargetRule(next(1) % 2), Hardlinks: caproot.HardlinkRule(next(1) % 3), Mounts: caproot.MountRule(next(1) % 2),
		Special: caproot.SpecialRule(next(1) % 2), Modes: fs.FileMode(next(4)), Names: pathsafe.Profile(next(1) % 5),
		MaxReadBytes: int64(next(8)), MaxWriteBytes: int64(next(8)), Durability: caproot.Durability(next(1) % 5),
		Bind: caproot.BindRule(next(1) % 2), Containment: caproot.Containment(next(1) % 2),
	}
	return p, b
}

// FuzzPolicyMeet: the meet of policies is below both, the greatest below both,
// and the same in any order; what is met is what a grant gets.
func FuzzPolicyMeet(f *testing.F) {
	f.Add([]byte{})
	for n := range 8 {
		f.Add(bytes.Repeat([]byte{byte(1 << n), 0xff, byte(n)}, 40))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, b := anyPolicy(b)
		q, b := anyPolicy(b)
		s, _ := anyPolicy(b)
		m := p.Meet(q)
		switch {
		case m != q.Meet(p), m.Meet(s) != p.Meet(q.Meet(s)), m.Meet(p) != m, p.Meet(p).Meet(p) != p.Meet(p):
			t.Fatalf("no meet: %v, %v, %v", p, q, s)
		case !m.Within(p), !m.Within(q):
			t.Fatalf("%v of %v and %v is not below both", m, p, q)
		case s.Within(p) && s.Within(q) && !s.Within(m):
			t.Fatalf("%v is below %v and %v, and not below %v", s, p, q, m)
		case p.Within(q) && q.Within(s) && !p.Within(s):
			t.Fatalf("%v, %v, %v: within is not transitive", p, q, s)
		}
	})
}
