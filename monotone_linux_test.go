package caproot

import (
	"errors"
	"maps"
	"os"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// What a child may do is not refused to its parent: random policies, names and
// verbs, once by the child in one tree and once by the parent in its twin.
func TestGrantIsMonotone(t *testing.T) {
	probe, err := Open(t.TempDir(), Compat())
	must(t, err)
	defer probe.Close()
	names := slices.Sorted(maps.Keys(verbs(probe))) // sorted: a seed means one run
	done := 0
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		p, q := usable(anyPolicy(rt)), usable(anyPolicy(rt))
		verb := rapid.SampledFrom(names).Draw(rt, "verb")
		name := rapid.SampledFrom([]string{"f", "dir/file", "dir", "in/file", "lk", "in/", "dir/new", "new", "dir/../f", "hard", "fifo",
			"A:b", "in/new", "dangling", "dir/sub/../../f"}).Draw(rt, "name")
		deny := rapid.SampledFrom([][]string{nil, {"dir"}, {"f"}, {"new"}, {"dir/sub"}}).Draw(rt, "deny")
		walked := rapid.Bool().Draw(rt, "walked")
		var outcome [2]error
		for i := range outcome {
			base, err := os.MkdirTemp(dir, "")
			if err != nil {
				rt.Fatal(err)
			}
			plant(rt, base)
			r, err := Open(base, p)
			if err != nil {
				rt.Fatal(err)
			}
			if walked {
				r.beneath = nil
			}
			at := r
			if i == 0 {
				if at, err = r.Grant(".", Grant{Policy: q, Deny: deny}); err != nil {
					rt.Fatal(err)
				}
			}
			outcome[i] = verbs(at)[verb](name)
			at.Close()
			r.Close()
			enterable(t, base)
			os.RemoveAll(base)
		}
		if outcome[0] == nil {
			done++
			if outcome[1] != nil {
				rt.Errorf("%s(%q): the child may, the parent: %v", verb, name, outcome[1])
			}
		}
	})
	if done == 0 {
		t.Error("no child could do anything")
	}
}

// usable widens what would refuse nearly everything.
func usable(p Policy) Policy {
	p.Rights |= Read | List | Create
	p.Containment, p.Mounts = Walked, MountsStay
	p.MaxReadBytes, p.MaxWriteBytes = NoLimit, NoLimit
	p.Special = SpecialRefuse
	p.Modes |= 0o700
	return p
}

func plant(t *rapid.T, base string) {
	err := errors.Join(
		os.MkdirAll(base+"/dir/sub", 0o755), os.WriteFile(base+"/dir/file", []byte("file"), 0o644),
		os.WriteFile(base+"/f", []byte("content"), 0o644), os.Symlink("dir", base+"/in"), os.Symlink("f", base+"/lk"),
		os.Symlink("nowhere", base+"/dangling"), os.WriteFile(base+"/one", nil, 0o600), os.Link(base+"/one", base+"/hard"),
		syscall.Mkfifo(base+"/fifo", 0o600))
	if err != nil {
		t.Fatal(err)
	}
}
