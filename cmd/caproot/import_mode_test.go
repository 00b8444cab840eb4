package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mode of nothing is a mode: not that of the file before, nor a usual one.
func TestImportOfNoMode(t *testing.T) {
	base, root := tree(t)
	if !keepsModes(t) || os.Geteuid() != 0 {
		t.Skip("only root on a system with modes reads a file of mode 0000")
	}
	src := filepath.Join(base, "src")
	must(t, os.Mkdir(src, 0o755))
	for _, name := range []string{"old", "new"} {
		must(t, os.WriteFile(filepath.Join(src, name), []byte("key"), 0o600))
		must(t, os.Chmod(filepath.Join(src, name), 0))
	}
	must(t, os.WriteFile(filepath.Join(root, "old"), []byte("before"), 0o644))
	receipts := filepath.Join(base, "receipts")
	got := caprootRun(t, "", "import", src, root, "--receipts", receipts, "--json")
	if got.code != 0 || !strings.Contains(got.out, `"files":2`) || !strings.Contains(got.out, `"bytes":"6"`) || !strings.Contains(got.out, `"narrowed":0`) {
		t.Fatalf("%+v", got)
	}
	for _, name := range []string{"old", "new"} {
		path := filepath.Join(root, name)
		info, err := os.Stat(path)
		must(t, err)
		if data, err := os.ReadFile(path); info.Mode() != 0 || string(data) != "key" || err != nil {
			t.Errorf("%s: %v, %q, %v", name, info.Mode(), data, err)
		}
	}
	if got := caprootRun(t, "", "check", root, "--receipts", receipts); got.code != 0 {
		t.Errorf("check: %+v", got)
	}
}

// A demo that cannot be set up is no attempt that was not refused.
func TestDemoWithoutTemp(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	cmd := command("demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+missing, "TMP="+missing, "TEMP="+missing)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}
