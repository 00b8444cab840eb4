package caproot

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caproot/caproot/pathsafe"
)

// difference is a row of docs/compat.md that a plan can meet: given what
// os.Root and we answered, does the row allow it?
type difference struct {
	row    string // the first cell of the row
	allows func(o operation, theirs, ours string) bool
}

var differences = []difference{
	{"names without a last component of their own", func(o operation, theirs, ours string) bool {
		return o.any(noLeaf) && (ours == "name" || theirs != "ok" && (ours == "is a directory" || ours == "escape"))
	}},
	{"links to the root", func(o operation, theirs, ours string) bool {
		return o.is("Chmod", "Chown", "Chtimes") && theirs == "ok" && ours == "name"
	}},
	{"`file/` for a file to make", func(o operation, theirs, ours string) bool {
		return o.makesFile() && slashed(o.a) && theirs != "ok" && ours == "is a directory"
	}},
	{"links that end in `/` to a file to make", func(o operation, theirs, ours string) bool {
		return o.makesFile() && !slashed(o.a) && theirs == "no such file or directory" && ours == "is a directory"
	}},
	{"`Mkdir(\"new/\")`", func(o operation, theirs, ours string) bool {
		return o.is("Mkdir") && slashed(o.a) && theirs != "ok" && (ours == "ok" || ours == "file exists")
	}},
	{"`link/` where a verb acts on the name", func(o operation, theirs, ours string) bool {
		return o.is("Remove", "RemoveAll", "Rename", "Link", "Lchown", "Lstat", "Readlink") && o.any(slashed) && ours == "symlink"
	}},
	{"`name/.` of Remove, RemoveAll, Rename", func(o operation, theirs, ours string) bool {
		return o.is("Remove", "RemoveAll", "Rename") && o.any(slashed) && (theirs == "invalid argument" || theirs == "device or resource busy")
	}},
	{"`RemoveAll(\"file/\")`", func(o operation, theirs, ours string) bool {
		return o.is("RemoveAll") && slashed(o.a) && theirs == "ok" && ours == "not a directory"
	}},
	{"`new/` of Symlink and Link", func(o operation, theirs, ours string) bool {
		return o.is("Symlink", "Link") && o.any(slashed) && theirs != "ok" && ours == "not a directory"
	}},
	{"`Rename(\"dir\", \"new/.\")`", func(o operation, theirs, ours string) bool {
		return o.is("Rename") && slashed(o.b) && theirs == "no such file or directory" && ours == "ok"
	}},
	{"two faults in a call with two names", func(o operation, theirs, ours string) bool {
		return o.is("Rename", "Link", "Symlink") && theirs != "ok" && ours != "ok"
	}},
	{"type and special bits in a creation mode", func(o operation, theirs, ours string) bool {
		return o.mode&^fs.ModePerm != 0 && o.is("Mkdir", "MkdirAll", "OpenFile", "WriteFile") && theirs == "io"
	}},
	{"O_TRUNC with O_RDONLY", func(o operation, _, ours string) bool {
		return o.is("OpenFile") && o.flag&(os.O_TRUNC|os.O_WRONLY|os.O_RDWR) == os.O_TRUNC && ours == "name"
	}},
	{"`MkdirAll` where a file is in the way", func(o operation, theirs, ours string) bool {
		return o.is("MkdirAll") && theirs == "file exists" && ours == "not a directory"
	}},
	{"`MkdirAll` where a dangling link is in the way", func(o operation, theirs, ours string) bool {
		return o.is("MkdirAll") && ours == "symlink"
	}},
	{"`.` and `..` in a directory that may not be searched", func(o operation, theirs, ours string) bool {
		return os.Geteuid() != 0 && (ours == "permission denied" || theirs == "permission denied" && o.any(slashed))
	}},
	{"`Rename` of a directory to its own name", func(o operation, theirs, ours string) bool {
		return o.is("Rename") && theirs == "file exists" && ours == "ok"
	}},
}

// Two differences are in the tree alone, the answers agree.
const (
	sameFileRename = "`Rename` between two names of one file"
	leavingMkdir   = "`MkdirAll` of a path that leaves the root"
)

func (o operation) is(verbs ...string) bool { return slices.Contains(verbs, o.verb) }

// any tells whether the predicate holds for a name of the operation.
func (o operation) any(holds func(string) bool) bool {
	return holds(o.a) || o.is("Link", "Rename", "Symlink") && holds(o.b)
}

func (o operation) makesFile() bool {
	return o.is("Create", "WriteFile") || o.is("OpenFile") && o.flag&os.O_CREATE != 0
}

func slashed(name string) bool { return strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") }

func noLeaf(name string) bool {
	shape, err := pathsafe.Parse(name, pathsafe.Host)
	return err != nil || shape.Leaf == "" || shape.Leaf == ".."
}

// The same random plans of all verbs on an os.Root and on a Root under Compat,
// in twin directories: every answer, and the tree after every call, agree,
// unless docs/compat.md has it otherwise.
func TestDifferential(t *testing.T) {
	for _, resolver := range []string{"kernel", "walker"} {
		t.Run(resolver, func(t *testing.T) {
			if resolver == "kernel" && !kernelResolves() {
				t.Skip("no openat2 on this system")
			}
			met := map[string]int{}
			check(t, func(rt *rapid.T) {
				plan := rapid.SliceOfN(anyOperation, 10, 60).Draw(rt, "plan")
				theirs, ours := newTwin(t), newTwin(t)
				defer discard(theirs)
				defer discard(ours)
				o, err := os.OpenRoot(theirs + "/root")
				must(t, err)
				defer o.Close()
				r, err := Open(ours+"/root", Compat())
				must(t, err)
				defer r.Close()
				if resolver == "walker" {
					r.beneath = nil
				}
				before := seal(t, ours+"/outside")
				for i, op := range plan {
					known := compare(rt, op, o, r)
					a, b := tree(t, theirs), tree(t, ours)
					if met[known]++; a == b {
						continue
					}
					if known == "" {
						rt.Fatalf("after step %d, %v: os.Root has\n%s\nours\n%s", i, op, a, b)
					}
					break // no twins any more
				}
				if after := seal(t, ours+"/outside"); after != before {
					rt.Fatalf("outside changed:\n%s\nwas\n%s", after, before)
				}
			})
			t.Logf("steps, by the documented difference they met: %v", met)
		})
	}
}

// compare runs op on both roots and returns the row of the difference that it
// met, if any.
func compare(t *rapid.T, op operation, o *os.Root, r *Root) (row string) {
	if namesOneFile(o, op) {
		row = sameFileRename
	}
	saw, theirs := planVerbs[op.verb](o, op)
	see, ours := planVerbs[op.verb](r, op)
	a, b := errorClass(theirs), errorClass(ours)
	if a == b && saw == see && sameStandardErrors(theirs, ours) {
		if op.verb == "MkdirAll" && b == "escape" {
			return leavingMkdir
		}
		return row
	}
	for _, d := range differences {
		if d.allows(op, a, b) {
			return d.row
		}
	}
	t.Fatalf("%v: os.Root: %q %v, ours: %q %v", op, saw, theirs, see, ours)
	return ""
}

// check runs more plans than rapid does by itself: they are short of luck.
func check(t *testing.T, plan func(*rapid.T)) {
	for range 5 {
		rapid.Check(t, plan)
	}
}

// namesOneFile tells whether op renames between two names of one file.
func namesOneFile(o *os.Root, op operation) bool {
	if op.verb != "Rename" {
		return false
	}
	from, err := o.Lstat(op.a)
	to, terr := o.Lstat(op.b)
	return err == nil && terr == nil && !from.IsDir() && os.SameFile(from, to)
}

// Every difference that a plan may meet stands in the table of docs/compat.md.
func TestDifferencesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("docs/compat.md")
	if err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	rows := []string{sameFileRename, leavingMkdir}
	for _, d := range differences {
		rows = append(rows, d.row)
	}
	for _, row := range rows {
		if !strings.Contains(string(doc), "\n| "+row+" |") {
			t.Errorf("docs/compat.md has no row %q", row)
		}
	}
}

// newTwin is a directory with outside/secret, and a root in which the names of
// a plan mean something.
func newTwin(t *testing.T) string {
	base := shm(t)
	for _, dir := range []string{"outside", "root", "root/a", "root/a/b"} {
		must(t, os.Mkdir(base+"/"+dir, 0o755))
	}
	for _, file := range []string{"outside/secret", "root/b", "root/a/c"} {
		must(t, os.WriteFile(base+"/"+file, []byte("secret"), 0o644))
	}
	must(t, os.Symlink("a", base+"/root/c"))
	must(t, os.Symlink("../b", base+"/root/a/d"))
	return base
}
