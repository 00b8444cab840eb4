package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// awkward are names that a file can have. Each goes through every command as
// bytes, and reaches a terminal only quoted (cases 66, 67).
var awkward = []string{"-x", "--json", "a\nb", "\x1b[2Jx", "a\rb", "a b", "\xff\xfe", "é", "\u202eb", "\x7f", "~", "*", "$(id)", `a\b`, "'", `"`}

func TestAwkwardNames(t *testing.T) {
	for _, name := range awkward {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			base, root := tree(t)
			entries, err := os.ReadDir(root)
			must(t, err)
			if err := os.WriteFile(filepath.Join(base, name), nil, 0o600); err != nil || strings.ContainsRune(name, filepath.Separator) {
				t.Skip("no such names here")
			}
			in := func(args ...string) result { return caprootRun(t, "data", args...) }
			if got := in("put", root, "--", name); got.code != 0 {
				t.Fatalf("put: %+v", got)
			}
			if data, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(data) != "data" {
				t.Fatalf("content %q, %v", data, err)
			}
			receipt := in("receipt", "--digest", root, "--", name)
			file := filepath.Join(base, "receipt")
			must(t, os.WriteFile(file, []byte(receipt.out), 0o600))
			for _, args := range [][]string{
				{"check", root, file}, {"stat", root, "--", name}, {"ls", "-l", root}, {"ls", root},
				{"mv", root, "--", name, name + "2"}, {"mv", root, "--", name + "2", name}, {"put", "--if-match", file, root, "--", name},
			} {
				got := in(args...)
				if got.code != 0 || strings.ContainsFunc(strings.ReplaceAll(got.out, "\n", ""), notShown) || strings.Contains(got.out, "\u202e") {
					t.Errorf("%s: %+v", args[0], got)
				}
				if args[0] == "ls" && strings.Count(got.out, "\n") != len(entries)+1 {
					t.Errorf("ls shows %q, want %d lines", got.out, len(entries)+1)
				}
			}
			if got := in("cat", root, "--", name); got.out != "data" {
				t.Errorf("cat: %+v", got)
			}
			for _, args := range [][]string{{"rm"}, {"mkdir"}, {"rm", "-r"}} {
				if got := in(append(args, root, "--", name)...); got.code != 0 {
					t.Errorf("%s: %+v", args, got)
				}
			}
			if got := in("cat", root, "--", name); got.code != exitNo {
				t.Errorf("cat after rm: %+v", got)
			}
		})
	}
}

// outside are names that lead out of the root.
func outside(base string) []string {
	names := []string{
		"..", "../outside", "../outside/secret", "dir/../../outside/secret", "/etc/passwd", filepath.Join(base, "outside", "secret"),
	}
	if !makesLinks(base) {
		return names
	}
	return append(names,
		"out/secret", "out/", "out/.", "./out/secret", "dir/../out/secret", "out/new", "out/../outside/secret", // cases 1, 6
	)
}

func saysDirectory(name string) bool {
	return strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/.") || strings.HasSuffix(name, "..")
}

func TestHostileNames(t *testing.T) {
	base, root := tree(t)
	file := filepath.Join(base, "receipt")
	must(t, os.WriteFile(file, []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
	for _, name := range outside(base) {
		for _, args := range [][]string{
			{"put", root, name}, {"put", "--parents", root, name + "/x"}, {"put", "--if-match", file, root, name},
			{"put", "--no-replace", root, name}, {"cat", root, name}, {"cat", "--json", root, name}, {"ls", root, name + "/"},
			{"ls", "-R", root, name + "/"}, {"stat", "-L", root, name}, {"stat", root, name + "/"}, {"mkdir", root, name + "/x"},
			{"mkdir", "-p", root, name + "/x"}, {"mv", root, "f", name + "/x"}, {"mv", root, name + "/x", "h"},
			{"mv", "--replace", root, "f", name + "/secret"}, {"rm", root, name + "/x"}, {"rm", "-r", root, name + "/x"},
			{"rm", "--if-match", file, root, name + "/x"}, {"receipt", root, name}, {"receipt", "--digest", root, name + "/"},
			{"import", "-q", filepath.Join(root, "dir"), root, name + "/x"},
		} {
			for _, policy := range []string{"workspace", "compat"} {
				got := caprootRun(t, "evil", append([]string{args[0], "--policy", policy}, args[1:]...)...)
				want := exitRefused
				if args[0] == "put" && args[len(args)-1] == name && saysDirectory(name) {
					want = exitFailed // no file has such a name
				}
				if got.code != want || got.out != "" {
					t.Errorf("%s of %q: %+v", strings.Join(args, " "), policy, got)
				}
			}
		}
	}
	checkOutside(t, base)
	checkNothingLeft(t, root)
	if data, err := os.ReadFile(filepath.Join(root, "f")); err != nil || string(data) != "content" {
		t.Errorf("f holds %q, %v", data, err)
	}
}
