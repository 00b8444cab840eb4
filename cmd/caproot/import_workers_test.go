package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caproot/caproot/identity"
)

// Several workers copy what one does: every file with a receipt on a line of its
// own, every directory before what is in it. It runs in this process, where the
// race detector sees it.
func TestImportByWorkers(t *testing.T) {
	needsLinks(t)
	const all = 500
	for _, workers := range []string{"1", "2", "16", "64"} {
		base := t.TempDir()
		src, root := filepath.Join(base, "src"), filepath.Join(base, "root")
		must(t, os.Mkdir(root, 0o755))
		crowd(t, src, all)
		must(t, os.Symlink("d00", filepath.Join(src, "link")))
		var out, errOut bytes.Buffer
		code := run([]string{"import", "--durability", "none", "--workers", workers, src, root, "copy"}, nil, &out, &errOut)
		if code != exitRefused || !strings.Contains(errOut.String(), "imported 500 files") || strings.Count(errOut.String(), "\n") != 2 {
			t.Errorf("%s workers: exit %d, %s", workers, code, errOut.String())
		}
		if n := wholeFiles(t, filepath.Join(root, "copy")); n != all {
			t.Errorf("%s workers: %d files arrived, want %d", workers, n, all)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(out.String()) {
			var r identity.Receipt
			must(t, json.Unmarshal([]byte(line), &r))
			seen[r.Path] = true
		}
		if len(seen) != all {
			t.Errorf("%s workers: receipts of %d files, want %d", workers, len(seen), all)
		}
		checkNothingLeft(t, root)
	}
}

// What one worker meets ends them all, and is told once.
func TestImportEndsWithItsReceipts(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil || filepath.Separator != '/' {
		t.Skipf("nothing to write to that is full: %v", err)
	}
	base, root := tree(t)
	src := filepath.Join(base, "src")
	crowd(t, src, 400)
	got := caprootRun(t, "", "import", "--durability", "none", "--workers", "8", "--receipts", "/dev/full", src, root, "copy")
	if got.code != exitFailed || strings.Count(got.err, "caproot: no-space: ") != 1 || strings.Count(got.err, "\n") != 2 {
		t.Errorf("import: %+v", got)
	}
	if n := wholeFiles(t, filepath.Join(root, "copy")); n >= 100 {
		t.Errorf("%d files were copied after the receipts had failed", n)
	}
	checkNothingLeft(t, root)
}
