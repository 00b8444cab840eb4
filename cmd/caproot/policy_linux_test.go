package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

func policyFile(t *testing.T, p caproot.Policy) string {
	t.Helper()
	text, err := json.Marshal(p)
	must(t, err)
	file := filepath.Join(t.TempDir(), "policy.json")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

// linked adds to the tree: in -> dir, top -> /f, alias = f, fifo.
func linked(t *testing.T) (base, root string) {
	base, root = tree(t)
	must(t, os.Symlink("dir", filepath.Join(root, "in")))
	must(t, os.Symlink("/f", filepath.Join(root, "top")))
	must(t, os.Link(filepath.Join(root, "f"), filepath.Join(root, "alias")))
	must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	return base, root
}

// Each rule is tried against what the preset alone does.
func TestRuleFlags(t *testing.T) {
	for _, tt := range []struct {
		args   string // of a command, without its flags
		flag   string
		before string // codes, "" for success
		after  string
	}{
		{args: "cat ROOT in/g", flag: "--links=refuse", after: "symlink"},
		{args: "cat ROOT in/g", flag: "--links=follow-parents"},
		{args: "stat -L ROOT in", flag: "--links=follow-parents", after: "symlink"},
		{args: "receipt ROOT in", flag: "--links=follow-parents", after: "symlink"},
		{args: "cat ROOT top", flag: "--links=resolve-in-root", before: "escape"},
		{args: "put ROOT in/new", flag: "--mutation-links=refuse", after: "symlink"},
		{args: "mkdir --policy=extract ROOT in/new", flag: "--mutation-links=follow-parents", before: "symlink"},
		{args: "cat ROOT alias", flag: "--hardlinks=refuse", after: "hardlink"},
		{args: "mv ROOT alias h", flag: "--hardlinks=refuse", after: "hardlink"},
		{args: "cat --policy=extract ROOT alias", flag: "--hardlinks=allow", before: "hardlink"},
		{args: "put ROOT aux", flag: "--names=portable", after: "name"},
		{args: "put --policy=extract ROOT aux", flag: "--names=host", before: "name"},
		{args: "cat ROOT f", flag: "--max-bytes=6", after: "too-large"},
		{args: "put ROOT new", flag: "--max-bytes=3", after: "too-large"},
		{args: "receipt --digest ROOT f", flag: "--max-bytes=6", after: "too-large"},
		{args: "put ROOT new", flag: "--policy=read-only", after: "policy"},
		{args: "cat ROOT fifo", flag: "--special=refuse", before: "special", after: "special"}, // case 37
	} {
		t.Run(tt.args+" "+tt.flag, func(t *testing.T) {
			for flag, code := range map[string]string{"": tt.before, tt.flag: tt.after} {
				base, root := linked(t)
				words := strings.Fields(strings.ReplaceAll(tt.args, "ROOT", root))
				args := append([]string{words[0]}, strings.Fields(flag)...)
				got := caprootRun(t, "data", append(args, words[1:]...)...)
				want := exitDone
				if code != "" {
					want = exitRefused
				}
				if got.code != want || code != "" && !strings.HasPrefix(got.err, "caproot: "+code+": ") {
					t.Errorf("with %q: %+v, want %q", flag, got, code)
				}
				checkOutside(t, base)
			}
		})
	}
}

func TestSpecialAllow(t *testing.T) {
	_, root := linked(t)
	writer := exec.Command("sh", "-c", `printf told >"$0"`, filepath.Join(root, "fifo"))
	must(t, writer.Start())
	got := caprootRun(t, "", "cat", "--special", "allow", root, "fifo")
	if err := writer.Wait(); err != nil || got.code != exitDone || got.out != "told" {
		t.Errorf("cat of a FIFO: %+v, %v", got, err)
	}
}

func TestMountRule(t *testing.T) {
	_, root := tree(t)
	if err := unix.Mount("tmpfs", filepath.Join(root, "dir"), "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no mount of a small tmpfs: %v", err)
	}
	defer unix.Unmount(filepath.Join(root, "dir"), unix.MNT_DETACH)
	if got := caprootRun(t, "x", "put", root, "dir/new"); got.code != exitRefused || !strings.HasPrefix(got.err, "caproot: mount: ") {
		t.Errorf("put into a mount: %+v", got)
	}
	if got := caprootRun(t, "x", "put", "--mounts", "cross", root, "dir/new"); got.code != exitDone {
		t.Errorf("put across a mount: %+v", got)
	}
	// case 173
	if got := caprootRun(t, "", "rm", "-r", "--policy", "compat", root, "dir"); got.code == exitDone {
		t.Errorf("rm -r of a mount: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(root, "dir", "new")); err != nil {
		t.Errorf("rm -r emptied a mount: %v", err)
	}
	if got := caprootRun(t, "", "cat", "--mounts", "stay", root, "dir/new"); got.code != exitRefused {
		t.Errorf("cat in a mount: %+v", got)
	}
}

func TestDurabilityFlag(t *testing.T) {
	_, root := tree(t)
	for _, want := range []string{"none", "file", "dir"} {
		var receipt struct{ Asked string }
		got := caprootRun(t, "x", "put", "--json", "--durability", want, root, "f")
		must(t, json.Unmarshal([]byte(got.out), &receipt))
		if receipt.Asked != want {
			t.Errorf("--durability %s: receipt says %s", want, receipt.Asked)
		}
	}
}

func TestPolicyFile(t *testing.T) {
	_, root := tree(t)
	p := caproot.Workspace()
	p.Rights = caproot.List | caproot.Create
	p.Modes = 0o600
	file := policyFile(t, p)
	for args, code := range map[string]string{
		"ls": "", "cat f": "policy", "put new": "", "put f": "policy", "put --mode=644 other": "policy", "rm f": "policy",
	} {
		words := strings.Fields(args)
		last := len(words) - 1
		line := append([]string{words[0], "--policy", file}, words[1:max(last, 1)]...)
		line = append(line, root)
		if last > 0 {
			line = append(line, words[last])
		}
		got := caprootRun(t, "x", line...)
		if (got.code == exitDone) != (code == "") || code != "" && (got.code != exitRefused || !strings.HasPrefix(got.err, "caproot: "+code+": ")) {
			t.Errorf("%s: %+v, want %q", args, got, code)
		}
	}
	// A flag replaces the field that the file gives.
	must(t, os.Symlink("f", filepath.Join(root, "l")))
	p.Rights, p.Links = caproot.AllRights, caproot.LinksRefuse
	file = policyFile(t, p)
	if got := caprootRun(t, "", "cat", "--policy", file, root, "l"); got.code != exitRefused {
		t.Errorf("cat of a link: %+v", got)
	}
	if got := caprootRun(t, "", "cat", "--policy", file, "--links", "follow", root, "l"); got.out != "content" {
		t.Errorf("cat of a link with --links: %+v", got)
	}
}

func TestMalformedPolicyFile(t *testing.T) {
	_, root := tree(t)
	file := filepath.Join(t.TempDir(), "p.json")
	for _, text := range []string{
		"", "null", "[]", `{"rights":["fly"]}`, `{"Links":"follow"}`, `{"links":"follow"}{}`, "{}" + strings.Repeat(" ", maxPolicyFile),
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if got := caprootRun(t, "", "cat", "--policy", file, root, "f"); got.code != exitFailed || got.out != "" || !strings.HasPrefix(got.err, "caproot: io: ") {
			t.Errorf("%.40s: %+v", text, got)
		}
	}
	// Nothing said is nothing allowed.
	must(t, os.WriteFile(file, []byte("{}"), 0o600))
	if got := caprootRun(t, "", "cat", "--policy", file, root, "f"); got.code != exitRefused || !strings.HasPrefix(got.err, "caproot: policy: ") {
		t.Errorf("the empty policy: %+v", got)
	}
}

// Every command that takes ROOT takes every policy flag.
func TestPolicyFlagsEverywhere(t *testing.T) {
	base, root := tree(t)
	must(t, os.WriteFile(filepath.Join(base, "receipt"), []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
	flags := strings.Fields("--links follow --mutation-links follow-parents --hardlinks refuse-mutation --mounts stay --special refuse " +
		"--names host --max-bytes 1000000 --durability none")
	flags = append(flags, "--policy", policyFile(t, caproot.Workspace()))
	for _, args := range printing(base, root) {
		if args[0] == "names" || args[0] == "probe" {
			continue
		}
		if got := caprootRun(t, "x", append(append([]string{args[0]}, flags...), args[1:]...)...); got.code != exitDone {
			t.Errorf("%s: %+v", args[0], got)
		}
	}
	if got := caprootRun(t, "", "cat", "--require-kernel", root, "dir/g"); got.code != exitDone && !strings.HasPrefix(got.err, "caproot: unsupported: ") {
		t.Errorf("--require-kernel: %+v", got)
	}
}
