package caproot

import (
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caproot/caproot/pathsafe"
)

func anyPolicy(t *rapid.T) Policy {
	return Policy{
		Rights:        Rights(rapid.Uint16().Draw(t, "rights")) & AllRights,
		Links:         LinkRule(rapid.IntRange(0, 3).Draw(t, "links")),
		MutationLinks: LinkRule(rapid.IntRange(0, 3).Draw(t, "mutation links")),
		LinkTargets:   TargetRule(rapid.IntRange(0, 1).Draw(t, "targets")),
		Hardlinks:     HardlinkRule(rapid.IntRange(0, 2).Draw(t, "hardlinks")),
		Mounts:        MountRule(rapid.IntRange(0, 1).Draw(t, "mounts")),
		Special:       SpecialRule(rapid.IntRange(0, 1).Draw(t, "special")),
		Modes:         fs.FileMode(rapid.Uint32().Draw(t, "modes")) & allModes,
		Names:         pathsafe.Profile(rapid.IntRange(0, 1).Draw(t, "names")),
		MaxReadBytes:  rapid.Int64Range(0, NoLimit).Draw(t, "read"),
		MaxWriteBytes: rapid.Int64Range(0, NoLimit).Draw(t, "write"),
		Durability:    Durability(rapid.IntRange(0, 4).Draw(t, "durability")),
		Bind:          BindRule(rapid.IntRange(0, 1).Draw(t, "bind")),
		Containment:   Containment(rapid.IntRange(0, 1).Draw(t, "containment")),
	}
}

// Meet is a lattice's meet: commutative, associative, idempotent, below both,
// and the zero policy is the bottom.
func TestMeetLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q, s := anyPolicy(t), anyPolicy(t), anyPolicy(t)
		for law, pair := range map[string][2]Policy{
			"commutative": {p.Meet(q), q.Meet(p)},
			"associative": {p.Meet(q).Meet(s), p.Meet(q.Meet(s))},
			"idempotent":  {p.Meet(p).Meet(p), p.Meet(p)},
			"bottom":      {p.Meet(Policy{}), Policy{}.Meet(Policy{})},
		} {
			if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
				t.Errorf("%s: %s", law, diff)
			}
		}
		if m := p.Meet(q); !m.Within(p) || !m.Within(q) {
			t.Errorf("meet %+v is not below both", m)
		}
	})
}

// The arrows of import: pathsafe and identity know nothing of the rest.
func TestImportLayers(t *testing.T) {
	const module = "github.com/caproot/caproot"
	for pkg, allowed := range map[string][]string{
		module:                  {module + "/pathsafe", module + "/identity", module + "/internal/nt"},
		module + "/internal/nt": nil,
		module + "/pathsafe":    nil,
		module + "/identity":    nil,
		module + "/exitcleanup": nil,
		module + "/scratch":     {module, module + "/identity", module + "/lock", module + "/exitcleanup"},
		module + "/lock":        {module, module + "/pathsafe", module + "/exitcleanup", module + "/internal/boottime"},
		module + "/state":       {module, module + "/pathsafe", module + "/lock"},
	} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, pkg).Output()
		if err != nil {
			t.Skipf("no go command to ask: %v", err)
		}
		for _, dep := range strings.Fields(string(out)) {
			if strings.HasPrefix(dep, module) && !strings.Contains(strings.Join(allowed, " ")+" ", dep+" ") {
				t.Errorf("%s imports %s", pkg, dep)
			}
		}
	}
}
