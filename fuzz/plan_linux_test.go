package fuzz_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

// planNames are the spellings of a plan. The tree it starts with has the
// directories d and d/e, the files f and d/g, and links: in to d, lk to f, out
// and abs to the outside, up to the root's parent, loop to itself, bomb to
// bomb2 twice, gone to nothing.
var planNames = []string{"f", "d", "d/g", "d/e", "in", "in/g", "lk", "out", "out/secret", "abs", "abs/secret", "up", "up/outside/secret", "loop",
	"bomb/x", "gone", "gone/x", "new", "d/new", "in/new", "new/x", "d/../f", "in/../f", "d/e/../../f", "d/../../outside/secret", "f/x", "lk/x",
	"d//g", "./f", "dd", "f/", "in/", "in/.", "out/", "out/.", "lk/", "d/", "new/", "", ".", "..", "d/..", "/proc/version", "f\x00", "hard"}

// planTargets are the texts of links that a plan makes.
var planTargets = []string{"f", "d", "../f", "in", "../outside", "../../outside/secret", "/proc", ".", "..", "new", "loop", "d/", "gone", "x/../..", "lk", "d/e"}

// step is one call of a plan, of four bytes.
type step struct {
	verb int
	a, b string
	arg  byte
}

func decodePlan(data []byte) (policy byte, steps []step) {
	if len(data) == 0 {
		return 0, nil
	}
	policy, data = data[0], data[1:]
	for ; len(data) >= 4 && len(steps) < 24; data = data[4:] {
		s := step{verb: int(data[0]) % (len(planVerbs) + len(hostileSteps)), arg: data[3]}
		names := planNames
		if s.isHostile() {
			names = hostileNames
		}
		s.a, s.b = names[int(data[1])%len(names)], names[int(data[2])%len(names)]
		steps = append(steps, s)
	}
	return policy, steps
}

// plan encodes a seed: a policy, then verb, name, name or "", one after the other.
func plan(policy byte, words ...string) []byte {
	data := []byte{policy}
	for i := 0; i+2 < len(words); i += 3 {
		for v := range planVerbs {
			if planVerbs[v].name == words[i] {
				data = append(data, byte(v), index(planNames, words[i+1]), index(planNames, words[i+2]), byte(i))
			}
		}
		for v := range hostileSteps {
			if hostileSteps[v].name == words[i] {
				data = append(data, byte(len(planVerbs)+v), index(hostileNames, words[i+1]), index(hostileNames, words[i+2]), 4)
			}
		}
	}
	return data
}

func index(names []string, name string) byte { return byte(max(slices.Index(names, name), 0)) }

// roots is what os.Root and caproot.Root have in common.
type roots interface {
	Chmod(name string, mode fs.FileMode) error
	Chtimes(name string, atime, mtime time.Time) error
	Lchown(name string, uid, gid int) error
	Link(oldname, newname string) error
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Open(name string) (*os.File, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	ReadFile(name string) ([]byte, error)
	Readlink(name string) (string, error)
	Remove(name string) error
	RemoveAll(name string) error
	Rename(oldname, newname string) error
	Stat(name string) (fs.FileInfo, error)
	Symlink(oldname, newname string) error
	WriteFile(name string, data []byte, perm fs.FileMode) error
}

type planVerb struct {
	name string
	call func(r roots, s step) (string, error)
}

var planVerbs = []planVerb{
	{"Chmod", func(r roots, s step) (string, error) { return "", r.Chmod(s.a, 0o700) }},
	{"Chtimes", func(r roots, s step) (string, error) { return "", r.Chtimes(s.a, time.Unix(1, 0), time.Unix(2, 0)) }},
	{"Lchown", func(r roots, s step) (string, error) { return "", r.Lchown(s.a, -1, -1) }},
	{"Link", func(r roots, s step) (string, error) { return "", r.Link(s.a, s.b) }},
	{"Rename", func(r roots, s step) (string, error) { return "", r.Rename(s.a, s.b) }},
	{"Mkdir", func(r roots, s step) (string, error) { return "", r.Mkdir(s.a, 0o755) }},
	{"MkdirAll", func(r roots, s step) (string, error) { return "", r.MkdirAll(s.a, 0o755) }},
	{"Remove", func(r roots, s step) (string, error) { return "", r.Remove(s.a) }},
	{"RemoveAll", func(r roots, s step) (string, error) { return "", r.RemoveAll(s.a) }},
	{"Readlink", func(r roots, s step) (string, error) {
		target, err := r.Readlink(s.a)
		if strings.HasSuffix(target, "/outside") {
			target = "outside" // abs has the place of its tree in its target
		}
		return target, err
	}},
	{"Stat", func(r roots, s step) (string, error) { return typeAndSize(r.Stat(s.a)) }},
	{"Lstat", func(r roots, s step) (string, error) { return typeAndSize(r.Lstat(s.a)) }},
	{"WriteFile", func(r roots, s step) (string, error) { return "", r.WriteFile(s.a, []byte("written"), 0o644) }},
	{"Symlink", func(r roots, s step) (string, error) {
		return "", r.Symlink(planTargets[int(s.arg)%len(planTargets)], s.a)
	}},
	{"ReadFile", func(r roots, s step) (string, error) {
		data, err := r.ReadFile(s.a)
		return string(data), err
	}},
	{"Open", func(r roots, s step) (string, error) {
		f, err := r.Open(s.a)
		if err != nil {
			return "", err
		}
		defer f.Close()
		names, _ := f.Readdirnames(-1)
		return fmt.Sprint(len(names)), nil
	}},
	{"OpenFile", func(r roots, s step) (string, error) {
		flags := []int{os.O_RDWR, os.O_CREATE | os.O_WRONLY, os.O_CREATE | os.O_EXCL | os.O_WRONLY, os.O_TRUNC | os.O_WRONLY}
		f, err := r.OpenFile(s.a, flags[int(s.arg)%len(flags)], 0o600)
		if err == nil {
			f.Close()
		}
		return "", err
	}},
	{"Put", own(func(r *caproot.Root, s step) error {
		_, err := r.Put(s.a, []byte("put"), caproot.PutOptions{Parents: s.arg&1 != 0, NoReplace: s.arg&2 != 0, Durability: caproot.DurabilityNone})
		return err
	})},
	{"Append", own(func(r *caproot.Root, s step) error {
		_, err := r.Append(s.a, []byte("more"), caproot.AppendOptions{Existing: s.arg&1 != 0})
		return err
	})},
	{"Move", own(func(r *caproot.Root, s step) error {
		_, err := r.Move(s.a, s.b, caproot.MoveOptions{Replace: s.arg&1 != 0})
		return err
	})},
	{"RemoveIf", own(func(r *caproot.Root, s step) error {
		receipt, err := r.Receipt(s.b)
		if err != nil {
			return err
		}
		return r.RemoveIf(s.a, receipt)
	})},
	{"ReadDir", own(func(r *caproot.Root, s step) error { _, err := r.ReadDir(s.a); return err })},
}

// own is a verb that os.Root does not have.
func own(call func(*caproot.Root, step) error) func(roots, step) (string, error) {
	return func(r roots, s step) (string, error) {
		if ours, ok := r.(*caproot.Root); ok {
			return "", call(ours, s)
		}
		return "", errors.ErrUnsupported
	}
}

func typeAndSize(info fs.FileInfo, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case info.Mode().IsRegular():
		return fmt.Sprint(info.Mode(), info.Size()), nil
	}
	return info.Mode().String(), nil // the size of abs is that of its tree's place
}

// padded spells a name so long that no system call takes it: then the kernel's
// resolver gives way to the walk.
func padded(name string) string {
	if name == "" || name[0] == '/' {
		return name
	}
	return strings.Repeat("./", 2100) + name
}

func planPolicy(b byte) caproot.Policy {
	inRoot := caproot.Compat()
	inRoot.Links, inRoot.MutationLinks = caproot.LinksResolveInRoot, caproot.LinksResolveInRoot
	host := caproot.Extract()
	host.Names = caproot.Workspace().Names // padded names are longer than portable ones
	all := []caproot.Policy{caproot.Compat(), caproot.Workspace(), host, caproot.ReadOnly(), inRoot}
	return all[int(b)%len(all)]
}

// FuzzPlan: no plan of verbs, under any policy, whatever a peer does to the tree
// between two of them, reads, changes or makes anything outside. Names long enough for the walk give the same answers and
// the same tree as short ones, and under Compat os.Root succeeds and fails
// alike, where docs/compat.md does not say otherwise.
func FuzzPlan(f *testing.F) {
	for _, seed := range planSeeds() {
		f.Add(seed)
	}
	for policy := range byte(5) {
		for _, seed := range hostileSeeds(policy) {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, steps := decodePlan(data)
		p := planPolicy(b)
		kernel, walker, theirs := newPlanTree(t), newPlanTree(t), newPlanTree(t)
		a, w := openPlan(t, kernel, p), openPlan(t, walker, p)
		o, err := os.OpenRoot(theirs + "/root")
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		sealed := [3]string{planTree(t, kernel+"/outside", true), planTree(t, walker+"/outside", true), planTree(t, kernel+"/root", false)}
		twins := p == caproot.Compat()
		for i, s := range steps {
			if s.isHostile() {
				s.attack(kernel)
				s.attack(walker)
				s.attack(theirs)
				sealed[2] = planTree(t, kernel+"/root", false)
				continue
			}
			text, err := planVerbs[s.verb].call(a, s)
			long := s
			long.a, long.b = padded(s.a), padded(s.b)
			text2, err2 := planVerbs[s.verb].call(w, long)
			mustBeSafe(t, s, text, err, kernel)
			mustBeSafe(t, s, text2, err2, walker)
			mine := planTree(t, kernel+"/root", false)
			if caproot.Code(err) != caproot.Code(err2) || text != text2 || mine != planTree(t, walker+"/root", false) {
				t.Fatalf("step %d, %s(%q, %q): %q %v, by the walk %q %v\n%s\n%s", i, s.name(), s.a, s.b, text, err, text2, err2,
					mine, planTree(t, walker+"/root", false))
			}
			if twins {
				twins = agrees(t, o, s, text, err) && mine == planTree(t, theirs+"/root", false)
			}
		}
		if planTree(t, kernel+"/outside", true) != sealed[0] || planTree(t, walker+"/outside", true) != sealed[1] {
			t.Fatalf("outside changed by %+v", steps)
		}
		if after := planTree(t, kernel+"/root", false); p == caproot.ReadOnly() && after != sealed[2] || strings.Contains(after, ".caproot-stage-") {
			t.Fatalf("left by %+v:\n%s", steps, after)
		}
	})
}

// mustBeSafe checks what one call gave: no byte of the outside, no host path,
// and no safety error that looks like absence.
func mustBeSafe(t *testing.T, s step, text string, err error, base string) {
	t.Helper()
	if strings.Contains(text, outsideText) {
		t.Fatalf("%s(%q) gave %q", planVerbs[s.verb].name, s.a, text)
	}
	if err == nil {
		return
	}
	var pathError *fs.PathError
	var linkError *os.LinkError
	if !errors.As(err, &pathError) && !errors.As(err, &linkError) || strings.Contains(err.Error(), base) {
		t.Fatalf("%s(%q): %T %v", planVerbs[s.verb].name, s.a, err, err)
	}
	var errno syscall.Errno
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)
	if absent && !errors.As(err, &errno) {
		t.Fatalf("%s(%q): %v looks like absence", planVerbs[s.verb].name, s.a, err)
	}
}

// agrees runs the step on os.Root and reports whether the two trees are twins
// still: not after a verb of our own, or a spelling that docs/compat.md lists.
func agrees(t *testing.T, o *os.Root, s step, text string, err error) bool {
	t.Helper()
	name := planVerbs[s.verb].name
	theirText, theirs := planVerbs[s.verb].call(o, s)
	both := name == "Rename" || name == "Link"
	switch {
	case errors.Is(theirs, errors.ErrUnsupported):
		return true // a verb of our own; the trees tell whether it changed anything
	case name == "MkdirAll", name == "Rename":
		return (theirs == nil) == (err == nil)
	case listed(s.a), both && listed(s.b):
		return (theirs == nil) == (err == nil)
	case (theirs == nil) != (err == nil), text != theirText, !both && errors.Is(theirs, fs.ErrNotExist) != errors.Is(err, fs.ErrNotExist):
		t.Fatalf("%s(%q, %q): %q %v, os.Root: %q %v", name, s.a, s.b, text, err, theirText, theirs)
	}
	return true
}

// listed is true for a spelling that docs/compat.md has a row for.
func listed(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return base == "" || base == "." || base == ".." || strings.Contains(name, "\x00")
}

func openPlan(t *testing.T, base string, p caproot.Policy) *caproot.Root {
	r, err := caproot.Open(base+"/root", p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// outsideText is what no plan may ever read.
const outsideText = "TOP SECRET"

func newPlanTree(t *testing.T) string {
	base := t.TempDir()
	if shm, err := os.MkdirTemp("/dev/shm", "caproot-fuzz"); err == nil {
		t.Cleanup(func() { os.RemoveAll(shm) })
		base = shm
	}
	var err error
	for _, dir := range []string{"outside", "root", "root/d", "root/d/e"} {
		err = errors.Join(err, os.Mkdir(base+"/"+dir, 0o755))
	}
	for name, data := range map[string]string{"outside/secret": outsideText, "root/f": "f", "root/d/g": "g"} {
		err = errors.Join(err, os.WriteFile(base+"/"+name, []byte(data), 0o644))
	}
	for link, target := range map[string]string{"in": "d", "lk": "f", "out": "../outside", "abs": base + "/outside", "up": "..", "loop": "loop",
		"bomb": "bomb2/bomb2", "bomb2": "bomb/bomb", "gone": "nowhere"} {
		err = errors.Join(err, os.Symlink(target, base+"/root/"+link))
	}
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// planTree lists a tree: type, mode, content or target, with times the status
// too.
func planTree(t *testing.T, dir string, times bool) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v", strings.TrimPrefix(path, dir), info.Mode())
		if st := info.Sys().(*syscall.Stat_t); times {
			fmt.Fprint(&b, st.Mtim, st.Ctim, st.Nlink, st.Uid, st.Gid)
		}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			fmt.Fprintf(&b, " %q %v", data, err)
		}
		if target, err := os.Readlink(path); err == nil {
			fmt.Fprintf(&b, " %q", strings.ReplaceAll(target, filepath.Dir(dir), ""))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// planSeeds are the cases, as plans, under each policy.
func planSeeds() (seeds [][]byte) {
	for policy := range byte(5) {
		seeds = append(seeds,
			plan(policy, "Open", "out/", "", "Stat", "out/.", "", "Mkdir", "out/", "", "Chmod", "out/.", ""), // case 1
			plan(policy, "ReadFile", "abs/secret", "", "WriteFile", "abs", "", "Put", "abs/secret", ""),      // case 6
			plan(policy, "ReadFile", "lk", "", "ReadFile", "in/g", "", "Stat", "abs", ""),                    // case 9
			plan(policy, "ReadFile", "d/../../outside/secret", "", "ReadFile", "up/outside/secret", "", "Move", "f", "up/outside/secret"),
			plan(policy, "ReadFile", "bomb/x", "", "Put", "loop", "", "MkdirAll", "bomb/x", ""),                                          // case 25
			plan(policy, "Link", "f", "hard", "ReadFile", "hard", "", "WriteFile", "hard", "", "Put", "hard", "", "Rename", "f", "hard"), // cases 27, 102
			plan(policy, "WriteFile", "lk/", "", "Remove", "lk/", "", "Rename", "lk/", "new"),                                            // case 31
			plan(policy, "MkdirAll", "new/", "", "Mkdir", "d/new", "", "Mkdir", "new/", ""),                                              // case 33
			plan(policy, "Remove", "in/", "", "RemoveAll", "in/", "", "Rename", "in/", "new", "RemoveAll", "in", ""),                     // case 34
			plan(policy, "Remove", "f/x", "", "Remove", "d", "", "Remove", "new", "", "Remove", "in", ""),                                // case 49
			plan(policy, "ReadFile", "", "", "Put", ".", "", "WriteFile", "d/..", "", "Symlink", "", ""),                                 // case 61
			plan(policy, "Put", "lk", "", "Put", "gone", "", "Put", "out/secret", "", "Append", "gone", "", "MkdirAll", "gone/x", ""),    // case 88
			plan(policy, "RemoveAll", ".", "", "RemoveAll", "d/..", "", "RemoveAll", "up", "", "RemoveIf", "f", "d/g"),                   // case 175
			plan(policy, "Symlink", "new", "", "ReadFile", "new/x", "", "Rename", "d", "new/x", "Link", "new", "dd", "RemoveAll", "d", ""))
	}
	return seeds
}
