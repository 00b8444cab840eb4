package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

// flaws runs an audit and returns what it found, as "finding name", sorted.
func flaws(t *testing.T, code int, args ...string) []string {
	t.Helper()
	got := caprootRun(t, "", append([]string{"audit", "--json"}, args...)...)
	if got.code != code {
		t.Errorf("audit: exit %d, want %d; %s", got.code, code, got.err)
	}
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	var found []string
	for _, line := range lines[:len(lines)-1] {
		var f flaw
		must(t, json.Unmarshal([]byte(line), &f))
		found = append(found, f.Finding+" "+f.text()+f.detail())
	}
	var end audited
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &end))
	if end.Findings != len(found) || end.Entries == 0 {
		t.Errorf("the end says %+v, of %d findings", end, len(found))
	}
	slices.Sort(found)
	return found
}

func checkFlaws(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// stageRandom is what ends the name of a stage.
const stageRandom = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// aged makes a file that is old enough to be a remainder.
func aged(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
	hour := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, hour, hour))
}

func TestAuditOfCleanTree(t *testing.T) {
	needsLinks(t)
	_, root := tree(t)
	must(t, os.RemoveAll(filepath.Join(root, "out")))
	must(t, os.Symlink("dir/g", filepath.Join(root, "inside")))
	must(t, os.Symlink("../f", filepath.Join(root, "dir", "up")))
	must(t, os.Link(filepath.Join(root, "f"), filepath.Join(root, "dir", "both")))
	if got := flaws(t, exitDone, root); got != nil {
		t.Errorf("found %q, want nothing", got)
	}
	if got := caprootRun(t, "", "audit", root); got.out != "" || got.err != "caproot: note: looked at 6 entries: 0 findings\n" {
		t.Errorf("audit: %+v", got)
	}
}

func TestAuditOfLinks(t *testing.T) {
	needsLinks(t)
	base, root := tree(t)
	for name, target := range map[string]string{
		"abs": "/", "absin": root + "/f", "gone": "none", "loop": "loop", "dir/far": "../../outside/secret", "through": "f/x", "in": "dir/../f",
	} {
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	checkFlaws(t, flaws(t, exitNo, "--policy", "extract", root),
		"absolute-link abs  -> /", "absolute-link absin  -> "+root+"/f", "dangling-link gone  -> none, not-exist",
		"dangling-link loop  -> loop, loop", "escaping-link dir/far  -> ../../outside/secret", "escaping-link out  -> ../outside",
		"dangling-link through  -> f/x, not-dir")
	checkOutside(t, base)
}

// Names that are one name elsewhere are told once for each name beyond the
// first, whatever stands between them and below them.
func TestAuditOfNames(t *testing.T) {
	needsLinks(t) // where there are none, case and form do not tell names apart either
	_, root := tree(t)
	must(t, os.RemoveAll(filepath.Join(root, "out")))
	names := []string{"dir/Read", "dir/read", "dir/READ", "dir/caf\u00e9", "dir/cafe\u0301", "F", "dir/CON", "dir/\xff", "dir/end."}
	for _, name := range names {
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	if entries, err := os.ReadDir(filepath.Join(root, "dir")); err != nil || len(entries) != 9 {
		t.Skipf("the file system takes some of the names for one: %d entries, %v", len(entries), err)
	}
	// A directory of the same names is no collision with its parent.
	must(t, os.Mkdir(filepath.Join(root, "dir", "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "dir", "sub", "f"), nil, 0o600))
	count := map[string]int{}
	for _, f := range flaws(t, exitNo, root) {
		kind, rest, _ := strings.Cut(f, " ")
		if kind == nameCollision {
			name, _, _ := strings.Cut(rest, "  ")
			rest = filepath.Dir(name) // which of them is first is the file system's choice
		}
		count[kind+" "+rest]++
	}
	want := map[string]int{
		"name-collision dir": 3, "name-collision .": 1, "unportable-name dir/CON  device-name": 1, "unportable-name dir/\xff  utf8": 1,
		"unportable-name dir/end.  trailing-dot": 1,
	}
	for what, n := range want {
		if count[what] != n {
			t.Errorf("%s: %d times, want %d", what, count[what], n)
		}
	}
	if len(count) != len(want) {
		t.Errorf("found %v", count)
	}
}

// What is held in memory is of the directories on the way, not of all.
func TestAuditForgetsDirectories(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"a/b/c", "d/e"} {
		must(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
		crowd(t, filepath.Join(base, dir), 60)
	}
	r, err := caproot.Open(base, caproot.ReadOnly())
	must(t, err)
	defer r.Close()
	c := newCollisions()
	for e, err := range r.Walk(t.Context(), ".", caproot.WalkOptions{}) {
		must(t, err)
		if left := c.add(e); left != nil {
			t.Fatalf("%v collides at %s", left, e.Path())
		}
		if len(c.open) != e.Depth() {
			t.Fatalf("%d directories are kept at depth %d", len(c.open), e.Depth())
		}
		if n := len(c.open[e.Depth()-1].hashes); n > 21 {
			t.Fatalf("%d names are kept of one directory, which has at most 21", n)
		}
	}
}

func TestAuditOfHardLinks(t *testing.T) {
	base, root := tree(t)
	must(t, os.RemoveAll(filepath.Join(root, "out")))
	secret := filepath.Join(base, "outside", "secret")
	must(t, os.Link(secret, filepath.Join(root, "b")))
	must(t, os.Link(secret, filepath.Join(root, "dir", "a")))
	must(t, os.Link(filepath.Join(root, "f"), filepath.Join(root, "dir", "inside")))
	got := flaws(t, exitNo, root)
	if len(got) != 1 || !strings.HasSuffix(got[0], "2 of 3 names seen") {
		t.Errorf("found %q, want one file with a name outside", got)
	}
}

// Records and stages of living processes are no findings; those of dead ones
// and the lock files of package managers are told apart.
func TestAuditOfLeftovers(t *testing.T) {
	_, root := tree(t)
	must(t, os.RemoveAll(filepath.Join(root, "out")))
	in := func(name string) string { return filepath.Join(root, name) }
	aged(t, in("peer.lock"), `{"pid":1}`)
	aged(t, in("package.lock"), `{"packages":{}}`)
	aged(t, in("text.lock"), "# no JSON\n")
	aged(t, in("dir/.caproot-stage-"+stageRandom), "half")
	aged(t, in(".caproot-stage-of-1-none-"+stageRandom), "displaced")
	aged(t, in(".caproot-lock-DEAD"), "")
	aged(t, in("x.lock.evict.1"), "")
	must(t, os.WriteFile(in(".caproot-stage-"+stageRandom), nil, 0o600))
	aged(t, in(".caproot-stage-of-somebody-else"), "")
	must(t, os.WriteFile(in("fresh.lock"), []byte(`{"pid":1}`), 0o600))
	must(t, os.Mkdir(in("g.lock.reclaim"), 0o700))
	hour := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(in("g.lock.reclaim"), hour, hour))
	must(t, os.Mkdir(in("h.lock.reclaim"), 0o700))
	checkFlaws(t, flaws(t, exitNo, "--policy", "read-only", root),
		"stale-lock peer.lock  age", "leftover-stage dir/.caproot-stage-"+stageRandom, "leftover-stage .caproot-stage-of-1-none-"+stageRandom+"  exchange",
		"leftover-record .caproot-lock-DEAD", "leftover-record x.lock.evict.1", "stale-guard g.lock.reclaim  age")
}

func TestAuditRefusals(t *testing.T) {
	_, root := tree(t)

	for args, want := range map[string]int{
		"NOROOT": exitNoRoot, "ROOT/f": exitNoRoot, "--deny dir ROOT": exitRefused, "ROOT extra": exitUsage,
	} {
		fill := strings.NewReplacer("NOROOT", root+"/none", "ROOT", root)
		if got := caprootRun(t, "", append([]string{"audit"}, strings.Fields(fill.Replace(args))...)...); got.code != want {
			t.Errorf("audit %s: %+v, want %d", args, got, want)
		}
	}
}
