package fuzz_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
)

// FuzzSpelling: one spelling, judged by pathsafe, by filepath and by what the
// kernel does with it without any Root. What pathsafe refuses no Root resolves;
// what a Root gives is inside, and is what the kernel finds there; and what
// changing verbs do with it leaves the outside as it was.
func FuzzSpelling(f *testing.F) {
	for policy := range byte(5) {
		addSpellings(func(name string) { f.Add(name, policy) })
		for _, name := range planNames {
			f.Add(name, policy)
		}
	}
	f.Fuzz(func(t *testing.T, name string, policy byte) {
		p := planPolicy(policy)
		lexical(t, name)
		base := newPlanTree(t)
		sealed := planTree(t, base+"/outside", true)
		r := openPlan(t, base, p)
		for _, spelling := range []string{name, padded(name)} {
			resolved(t, r, base, name, spelling)
		}
		for _, s := range changes(name) {
			text, err := planVerbs[s.verb].call(r, s)
			mustBeSafe(t, s, text, err, base)
		}
		if now := planTree(t, base+"/outside", true); now != sealed {
			t.Fatalf("%q changed the outside:\n%s\nwas\n%s", name, now, sealed)
		}
	})
}

// lexical compares the verdicts that need no file system.
func lexical(t *testing.T, name string) {
	t.Helper()
	shape, err := pathsafe.Parse(name, pathsafe.POSIX)
	plain := !strings.Contains(name, "\x00") && len(name) < 4096 &&
		!slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > 255 })
	if local := filepath.IsLocal(name); local && err != nil && plain {
		t.Fatalf("%+q is local, and refused: %v", name, err)
	} else if err == nil && !local && !shape.DotDot {
		t.Fatalf("%+q is not local, and accepted: %+v", name, shape)
	}
	if path, lerr := filepath.Localize(name); lerr == nil && plain && (err != nil || !shape.Clean && name != "." || path != name) {
		t.Fatalf("%+q is localized to %q, and Parse says %+v, %v", name, path, shape, err)
	}
}

// resolved compares what a Root describes with what the kernel finds.
func resolved(t *testing.T, r *caproot.Root, base, name, spelling string) {
	t.Helper()
	info, err := r.Stat(spelling)
	if _, perr := pathsafe.Parse(name, r.Policy().Names); perr != nil && err == nil {
		t.Fatalf("Stat(%+q) resolves what Parse refuses: %v", name, perr)
	}
	if err != nil {
		mustBeSafe(t, step{a: name}, "", err, base)
		return
	}
	if inodeIn(base+"/outside", info) || !inodeIn(base+"/root", info) {
		t.Fatalf("Stat(%+q) describes what is not inside: %v", name, info)
	}
	if r.Policy().Links == caproot.LinksResolveInRoot {
		return // by rules of its own
	}
	theirs, terr := os.Stat(base + "/root/" + name)
	if terr != nil || !caproot.SameFile(theirs, info) {
		t.Fatalf("Stat(%+q) gives %v, the kernel %v, %v", name, info, theirs, terr)
	}
}

func inodeIn(dir string, info fs.FileInfo) (found bool) {
	ino := info.Sys().(*syscall.Stat_t).Ino
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		other, err := e.Info()
		found = found || err == nil && other.Sys().(*syscall.Stat_t).Ino == ino
		return err
	})
	return found
}

// changes are steps with one spelling for every verb that changes something,
// the removing ones last.
func changes(name string) (steps []step) {
	for _, last := range []bool{false, true} {
		for v, verb := range planVerbs {
			if removes := strings.HasPrefix(verb.name, "Remove") || verb.name == "Rename" || verb.name == "Move"; removes == last {
				steps = append(steps, step{verb: v, a: name, b: "dd", arg: byte(v)})
			}
		}
	}
	return steps
}

// The differential sees what it looks for: a joined path, which follows the
// links and climbs, gives what is outside.
func TestSpellingTwin(t *testing.T) {
	base := newPlanTree(t)
	escaped := 0
	for _, name := range planNames {
		info, err := os.Stat(filepath.Join(base, "root", name))
		if err == nil && inodeIn(base+"/outside", info) {
			escaped++
		}
	}
	if escaped < 3 {
		t.Errorf("only %d names of the corpus lead outside", escaped)
	}
}
