package caproot

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const workspaceJSON = `{"rights":["read","list","create","replace","modify","mkdir","move","remove","link","symlink","attrib"],` +
	`"links":"follow","mutation_links":"follow-parents","link_targets":"inside","hardlinks":"refuse-mutation","mounts":"stay",` +
	`"special":"refuse","modes":"0775","names":"host","max_read_bytes":"unlimited","max_write_bytes":"unlimited",` +
	`"durability":"file","bind":"handle","containment":"walked"}`

// The form is stable: programs of other releases wrote it.
func TestPolicyJSONForm(t *testing.T) {
	for text, p := range map[string]Policy{workspaceJSON: Workspace(), zeroPolicyJSON: {}} {
		got, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("form (-want +got):\n%s", diff)
		}
		var back Policy
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != p {
			t.Errorf("reads as %v, %v; want %v", back, err, p)
		}
	}
}

const zeroPolicyJSON = `{"rights":[],"links":"refuse","mutation_links":"refuse","link_targets":"inside","hardlinks":"refuse",` +
	`"mounts":"stay","special":"refuse","modes":"0000","names":"portable","max_read_bytes":"0","max_write_bytes":"0",` +
	`"durability":"default","bind":"path","containment":"kernel-atomic"}`

func TestPolicyJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back Policy
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("through %s (-want +got):\n%s", text, diff)
		}
	})
}

// A field that is left out takes away and never adds.
func TestPolicyJSONMissingIsStrictest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for _, f := range p.fields() {
			if rapid.Bool().Draw(t, f.name) {
				delete(fields, f.name)
			}
		}
		if text, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		var less Policy
		if err := json.Unmarshal(text, &less); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !less.Within(p) {
			t.Errorf("%s is %v, which allows more than %v", text, less, p)
		}
	})
}

// A field that Policy gets one day must not be lost on the way through JSON.
func TestPolicyJSONHasEveryField(t *testing.T) {
	for i := range reflect.TypeFor[Policy]().NumField() {
		var p, back Policy
		field := reflect.ValueOf(&p).Elem().Field(i)
		if field.CanInt() {
			field.SetInt(1)
		} else {
			field.SetUint(1)
		}
		text, err := json.Marshal(p)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back != p || p == (Policy{}) {
			t.Errorf("%s of 1 became %v, %v", reflect.TypeFor[Policy]().Field(i).Name, back, err)
		}
	}
}

func TestPolicyJSONRefuses(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[]`, `"workspace"`, `{`, `{"links":"follow"`, `{"links":"follow"} {}`, `{"links":"follow",}`,
		`{"later":1}`, `{"Links":"follow"}`, `{"LINKS":"refuse"}`, `{"v":1}`,
		`{"links":"follow","links":"refuse"}`, `{"links":"refuse","l\u0069nks":"follow"}`,
		`{"links":null}`, `{"links":2}`, `{"links":"Follow"}`, `{"links":""}`, `{"links":"all"}`, `{"links":["follow"]}`,
		`{"mutation_links":"inside"}`, `{"link_targets":"outside"}`, `{"hardlinks":"refuse-read"}`, `{"mounts":"refuse"}`,
		`{"special":true}`, `{"bind":"dir"}`, `{"names":"any"}`, `{"names":null}`, `{"durability":"full"}`, `{"containment":"none"}`,
		`{"rights":null}`, `{"rights":"read"}`, `{"rights":"all"}`, `{"rights":["read","read"]}`, `{"rights":["all"]}`,
		`{"rights":[null]}`, `{"rights":["Read"]}`, `{"rights":["read",4]}`, `{"rights":{}}`,
		`{"modes":"775"}`, `{"modes":"00775"}`, `{"modes":"0o77"}`, `{"modes":"0888"}`, `{"modes":493}`, `{"modes":"+775"}`,
		`{"max_read_bytes":5}`, `{"max_read_bytes":"-1"}`, `{"max_read_bytes":"05"}`, `{"max_read_bytes":"+5"}`, `{"max_read_bytes":"1e3"}`,
		`{"max_write_bytes":"9223372036854775808"}`, `{"max_write_bytes":"1k"}`, `{"max_write_bytes":"Unlimited"}`, `{"max_write_bytes":""}`,
	} {
		p := Extract()
		err := p.UnmarshalJSON([]byte(text))
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want an error that matches ErrFormat", text, err)
		}
		if p != Extract() {
			t.Errorf("%s: the refusal changed the policy to %v", text, p)
		}
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s: json.Unmarshal takes it", text)
		}
	}
}

func TestPolicyJSONWritesOnlyWhatReads(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"rights": func(p *Policy) { p.Rights = AllRights + 1 }, "links": func(p *Policy) { p.Links = LinksResolveInRoot + 1 },
		"hardlinks": func(p *Policy) { p.Hardlinks = 3 }, "modes": func(p *Policy) { p.Modes = fs.ModeDir },
		"names": func(p *Policy) { p.Names = 99 }, "max_read_bytes": func(p *Policy) { p.MaxReadBytes = -1 },
		"durability": func(p *Policy) { p.Durability = 99 }, "containment": func(p *Policy) { p.Containment = 2 },
	} {
		p := Workspace()
		change(&p)
		text, err := json.Marshal(p)
		if !errors.Is(err, ErrFormat) || !strings.Contains(fmt.Sprint(err), `field "`+name+`"`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if shown := p.String(); name != "max_read_bytes" && !strings.Contains(shown, "invalid(") {
			t.Errorf("%s: %s does not show the invalid value", name, shown)
		}
	}
}

func TestPolicyPrints(t *testing.T) {
	const want = "rights=read,list links=follow mutation_links=refuse link_targets=inside hardlinks=refuse-mutation mounts=stay " +
		"special=refuse modes=0000 names=host max_read_bytes=unlimited max_write_bytes=0 durability=file bind=handle containment=walked"
	for _, format := range []string{"%v", "%+v", "%s"} {
		if got := fmt.Sprintf(format, ReadOnly()); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
	for right, text := range map[Rights]string{0: "none", Share: "share", Read | Share: "read,share", Read | 1<<15: "read,invalid(0x8000)"} {
		if right.String() != text {
			t.Errorf("rights %#x: %s, want %s", uint16(right), right, text)
		}
	}
}

// Each rule has one name and each name reads as the rule.
func TestRuleNames(t *testing.T) {
	if len(rightTerms) != bits.OnesCount16(uint16(AllRights)) {
		t.Errorf("%d rights have %d names", bits.OnesCount16(uint16(AllRights)), len(rightTerms))
	}
	checkRuleNames[LinkRule](t, linkTerms, LinksResolveInRoot)
	checkRuleNames[TargetRule](t, targetTerms, TargetsAny)
	checkRuleNames[HardlinkRule](t, hardlinkTerms, HardlinksAllow)
	checkRuleNames[MountRule](t, mountTerms, MountsCross)
	checkRuleNames[SpecialRule](t, specialTerms, SpecialAllow)
	checkRuleNames[BindRule](t, bindTerms, BindHandle)
}

func checkRuleNames[T interface {
	~uint8
	fmt.Stringer
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, terms []string, last T) {
	t.Helper()
	seen := slices.Compact(slices.Sorted(slices.Values(terms)))
	if len(terms) != int(last)+1 || len(seen) != len(terms) {
		t.Errorf("%T: %d values and the names %q", last, int(last)+1, terms)
	}
	for v := T(0); v <= last; v++ {
		var back T
		text, err := v.MarshalText()
		if err == nil {
			err = P(&back).UnmarshalText(text)
		}
		if err != nil || back != v || v.String() != string(text) {
			t.Errorf("%T %d: %q reads as %d, %v", v, uint8(v), text, uint8(back), err)
		}
	}
}
