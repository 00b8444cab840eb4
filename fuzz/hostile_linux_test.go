package fuzz_test

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// hostileNames are directly in the root of a plan's tree, so that what a peer
// does to them by path stays in that tree.
var hostileNames = []string{"f", "d", "in", "lk", "out", "abs", "up", "new", "dd", "gone", "hard", "loop"}

// hostileStep is what another process does between two calls of a plan.
type hostileStep struct {
	name string
	do   func(a, b, target string) error // paths of two names, and the text of a link
}

// hostileSteps come to the tree without any Root. cases 3, 13, 15, 16, 30, 167
var hostileSteps = []hostileStep{
	{"peer exchanges", func(a, b, _ string) error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	}},
	{"peer renames", func(a, b, _ string) error { return os.Rename(a, b) }},
	{"peer links", func(a, b, _ string) error { return os.Link(a, b) }},
	{"peer makes a link", func(a, _, target string) error {
		if err := os.Remove(a); err != nil && !os.IsNotExist(err) {
			return err
		}
		return os.Symlink(target, a)
	}},
	{"peer moves into d", func(a, _, _ string) error { return os.Rename(a, strings.TrimSuffix(a, "/")+"/../d/moved") }},
}

// isHostile tells of the steps that are not the program's own.
func (s step) isHostile() bool { return s.verb >= len(planVerbs) }

// attack does a hostile step to a tree. What it fails at fails in every twin.
func (s step) attack(base string) error {
	target := planTargets[int(s.arg)%len(planTargets)]
	return hostileSteps[s.verb-len(planVerbs)].do(base+"/root/"+s.a, base+"/root/"+s.b, target)
}

// name is that of the step's verb.
func (s step) name() string {
	if s.isHostile() {
		return hostileSteps[s.verb-len(planVerbs)].name
	}
	return planVerbs[s.verb].name
}

// hostileSeeds are the cases in which a name changes between two calls.
func hostileSeeds(policy byte) [][]byte {
	return [][]byte{
		plan(policy, "Stat", "d/g", "", "peer exchanges", "d", "out", "ReadFile", "d/secret", "", "WriteFile", "d/new", "", "RemoveAll", "d", ""), // cases 13, 167
		plan(policy, "Open", "d/e", "", "peer exchanges", "d", "abs", "Put", "d/g", "", "ReadDir", "d", "", "MkdirAll", "d/new", ""),              // cases 15, 16
		plan(policy, "Stat", "f", "", "peer exchanges", "f", "out", "Chmod", "f", "", "Chtimes", "f", "", "Lchown", "f", ""),                      // case 3
		plan(policy, "Mkdir", "new", "", "peer exchanges", "new", "up", "Put", "new/x", "", "Remove", "new", "", "Rename", "f", "new/x"),
		plan(policy, "peer makes a link", "new", "", "Append", "new", "", "peer renames", "new", "f", "Append", "f", ""),                         // case 88
		plan(policy, "peer links", "f", "hard", "WriteFile", "hard", "", "Chmod", "f", "", "peer exchanges", "hard", "lk"),                       // cases 27, 28
		plan(policy, "peer moves into d", "in", "", "ReadDir", "d", "", "RemoveAll", "d", "", "peer renames", "out", "d", "ReadFile", "d/g", ""), // case 30
	}
}
