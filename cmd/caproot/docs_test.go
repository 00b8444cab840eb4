package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/cli.md names every command, flag and feature there is, and no other.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	must(t, err)
	doc := string(text)
	parser, err := newParser(&commands{}, io.Discard, io.Discard, func(int) {})
	must(t, err)
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("[` ](--?[a-zA-Z0][a-z-]*)[`| ]").FindAllStringSubmatch(doc, -1) {
		told[m[1]] = true
	}
	known := map[string]bool{"-o": true} // of go build
	for _, command := range parser.Model.Leaves(false) {
		if !strings.Contains(doc, "\n| `"+command.Name+" ") && !strings.Contains(doc, "\n| `"+command.Name+"` |") {
			t.Errorf("command %s has no row", command.Name)
		}
		for _, flag := range slices.Concat(command.AllFlags(false)...) {
			long, short := "--"+flag.Name, "-"+string(flag.Short)
			if !told[long] && !told[short] && flag.Name != "help" {
				t.Errorf("%s %s is not told", command.Name, long)
			}
			known[long], known[short] = true, true
		}
	}
	for flag := range told {
		if !known[flag] {
			t.Errorf("%s is told, and there is no such flag", flag)
		}
	}
	for _, feature := range features {
		if !strings.Contains(doc, "`"+feature+"`") {
			t.Errorf("feature %s is not told", feature)
		}
	}
	for _, finding := range auditFindings {
		if !strings.Contains(doc, "`"+finding+"`") {
			t.Errorf("finding %s is not told", finding)
		}
	}
	for _, code := range []int{exitDone, exitNo, exitRefused, exitFailed, exitNoRoot, exitUsage, exitCannotRun} {
		if !regexp.MustCompile(`(?m)^\| ` + strconv.Itoa(code) + ` \|`).MatchString(doc) {
			t.Errorf("exit code %d has no row", code)
		}
	}
}
