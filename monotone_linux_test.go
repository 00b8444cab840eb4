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
		walked := rapid.Bool().Draw(rt, "walked") || probe.beneath == nil
		p, q := usable(rt, walked), usable(rt, walked)
		verb := rapid.SampledFrom(names).Draw(rt, "verb")
		name := rapid.SampledFrom([]string{"f", "dir/file", "dir", "in/file", "lk", "in/", "dir/new", "new", "dir/../f", "hard", "fifo",
			"A:b", "in/new", "dangling", "dir/sub/../../f"}).Draw(rt, "name")
		if name == "fifo" && p.Special != SpecialRefuse {
			name = "f" // it would wait for a writer
		}
		deny := rapid.SampledFrom([][]string{nil, {"dir"}, {"f"}, {"new"}, {"dir/sub"}}).Draw(rt, "deny")
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

// usable is any policy, of which each part that would refuse nearly everything is
// mostly widened, and a limit is near the sizes in the tree.
func usable(t *rapid.T, walked bool) Policy {
	p := anyPolicy(t)
	mostly := func(what string) bool { return rapid.IntRange(0, 4).Draw(t, what) > 0 }
	limit := func(what string) int64 {
		if mostly(what) {
			return NoLimit
		}
		return rapid.Int64Range(0, 8).Draw(t, what)
	}
	for _, right := range []Rights{Read, List, Create} {
		if mostly("right") {
			p.Rights |= right
		}
	}
	if mostly("owner's modes") {
		p.Modes |= 0o700
	}
	if walked {
		p.Containment = Walked
	}
	p.MaxReadBytes, p.MaxWriteBytes = limit("may read"), limit("may write")
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
