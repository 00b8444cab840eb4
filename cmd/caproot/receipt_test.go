package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file without receipts proves nothing, and is no success unless that is said.
func TestCheckOfNoReceipts(t *testing.T) {
	base, root := tree(t)
	one, none, blank := filepath.Join(base, "one"), filepath.Join(base, "none"), filepath.Join(base, "blank")
	must(t, os.WriteFile(one, []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
	must(t, os.WriteFile(none, nil, 0o600))
	must(t, os.WriteFile(blank, []byte("\n\n"), 0o600))
	for _, args := range [][]string{{none}, {blank}, {"-"}, {"--receipts", none}, {one, none}, {none, one}, {"--json", none}, {os.DevNull}} {
		got := caprootRun(t, "", append([]string{"check", "-q", root}, args...)...)
		if got.code != exitRefused || !strings.HasPrefix(got.err, "caproot: no-receipts: ") || strings.Count(got.err, "\n") != 1 {
			t.Errorf("check %q: %+v", args, got)
		}
		got = caprootRun(t, "", append([]string{"check", "-q", "--allow-empty", root}, args...)...)
		if got.code != exitDone || got.err != "" {
			t.Errorf("check --allow-empty %q: %+v", args, got)
		}
	}
}
