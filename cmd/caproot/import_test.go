package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// source makes a tree of three files, one of them executable, and an empty directory.
func source(t *testing.T, base string) string {
	src := filepath.Join(base, "src")
	must(t, os.MkdirAll(filepath.Join(src, "a", "b"), 0o755))
	must(t, os.Mkdir(filepath.Join(src, "empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(src, "one"), []byte("1"), 0o644))
	must(t, os.WriteFile(filepath.Join(src, "a", "two"), []byte("22"), 0o644))
	must(t, os.WriteFile(filepath.Join(src, "a", "b", "run"), []byte("333"), 0o644))
	must(t, os.Chmod(filepath.Join(src, "a", "b", "run"), 0o750))
	return src
}

func TestImportAndCheck(t *testing.T) {
	base, root := tree(t)
	src, receipts := source(t, base), filepath.Join(base, "receipts")
	got := caprootRun(t, "", "import", src, root, "new/place", "--receipts", receipts)
	if got.code != 0 || got.out != "" || !strings.Contains(got.err, "imported 3 files, 6 B, and 3 directories") {
		t.Fatalf("import: %+v", got)
	}
	run := filepath.Join(root, "new", "place", "a", "b", "run")
	if data, err := os.ReadFile(run); err != nil || string(data) != "333" {
		t.Errorf("content %q, %v", data, err)
	}
	if info, err := os.Stat(run); err != nil || info.Mode().Perm() != 0o750 && keepsModes(t) {
		t.Errorf("mode %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(root, "new", "place", "empty")); err != nil {
		t.Error(err)
	}
	if got := caprootRun(t, "", "check", root, "--receipts", receipts); got.code != 0 || !strings.Contains(got.err, "3 same, 0 not") {
		t.Errorf("check: %+v", got)
	}
	// The same object, the same size, other content: only the digest can tell.
	must(t, os.WriteFile(run, []byte("334"), 0o750))
	got = caprootRun(t, "", "check", root, receipts)
	if got.code != 1 || got.out != "different digest new/place/a/b/run\n" {
		t.Errorf("check of changed content: %+v", got)
	}
	must(t, os.Remove(run))
	if got = caprootRun(t, "", "check", "--json", root, receipts); got.code != 1 || !strings.Contains(got.out, `"reason":"not-exist"`) {
		t.Errorf("check of a missing file: %+v", got)
	}
}

func TestImportWritesReceipts(t *testing.T) {
	base, root := tree(t)
	got := caprootRun(t, "", "import", "-q", source(t, base), root)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 0 || got.err != "" || len(lines) != 3 {
		t.Fatalf("import: %+v", got)
	}
	for _, line := range lines {
		var r struct{ SHA256 string }
		if err := json.Unmarshal([]byte(line), &r); err != nil || len(r.SHA256) != 64 {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestImportTellsWhatItLeaves(t *testing.T) {
	needsLinks(t)
	needsModes(t)
	base, root := tree(t)
	src := source(t, base)
	must(t, os.Symlink("one", filepath.Join(src, "link")))
	must(t, os.Chmod(filepath.Join(src, "one"), 0o646))
	got := caprootRun(t, "", "import", src, root)
	for _, want := range []string{`caproot: symlink: import "link": `, "not copied: 1", "the policy cut the mode of 1", "imported 3 files"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("stderr %q, want %q", got.err, want)
		}
	}
	if got.code != exitRefused {
		t.Errorf("exit %d, want %d", got.code, exitRefused)
	}
	if _, err := os.Lstat(filepath.Join(root, "link")); !os.IsNotExist(err) {
		t.Errorf("link: %v, want none", err)
	}
}

func TestImportStaysInside(t *testing.T) {
	base, root := tree(t)
	src := source(t, base)
	leave := []string{"../outside", "out", "out/new"}
	if !makesLinks(base) {
		leave = leave[:1]
	}
	for _, name := range leave {
		if got := caprootRun(t, "", "import", src, root, name); got.code != exitRefused || !strings.Contains(got.err, "caproot: escape: ") {
			t.Errorf("import to %s: %+v", name, got)
		}
	}
	checkOutside(t, base)
	if got := caprootRun(t, "", "import", filepath.Join(base, "none"), root); got.code != exitNoRoot {
		t.Errorf("import of nothing: %+v", got)
	}
}

// A copy into its own source is refused before anything is made, whichever way
// the place is named. What holds the source may get the copy.
func TestImportIntoItself(t *testing.T) {
	base, root := tree(t)
	inside := [][]string{{root, root}, {root, root, "dir"}, {root, root, "new/place"}, {root, filepath.Join(root, "dir")}, {root, filepath.Join(root, "dir"), "new"},
		{filepath.Join(root, "dir"), root, "dir"}, {filepath.Join(root, "dir"), root, "dir/new"}}
	if makesLinks(t.TempDir()) {
		must(t, os.Symlink("dir", filepath.Join(root, "in")))
		must(t, os.Symlink(root, filepath.Join(base, "link")))
		inside = append(inside, []string{filepath.Join(root, "dir"), root, "in/new"}, []string{root, filepath.Join(base, "link"), "new"},
			[]string{filepath.Join(base, "link"), root, "new"})
	}
	for _, args := range inside {
		got := caprootRun(t, "", append([]string{"import", "-q"}, args...)...)
		if got.code != exitRefused || got.out != "" || !strings.HasPrefix(got.err, "caproot: name: import ") || strings.Count(got.err, "\n") != 1 {
			t.Errorf("import %q: %+v", args, got)
		}
	}
	for _, name := range []string{"new", "dir/new", "dir/dir", "dir/f"} {
		if _, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name))); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want none", name, err)
		}
	}
	if got := caprootRun(t, "", "import", "-q", filepath.Join(root, "dir"), root, "copy"); got.code != 0 {
		t.Errorf("import beside the source: %+v", got)
	}
}

// The main job: a tree goes in, and every file of it is proved to be there.
func TestImportOfManyFiles(t *testing.T) {
	base, root := tree(t)
	src, receipts := filepath.Join(base, "src"), filepath.Join(base, "receipts")
	crowd(t, src, 400)
	deep := filepath.Join(src, strings.Repeat("deep/", 100))
	must(t, os.MkdirAll(deep, 0o755))
	must(t, os.WriteFile(filepath.Join(deep, "7"), crowdContent(7), 0o600))
	got := caprootRun(t, "", "import", "--durability", "none", "--receipts", receipts, src, root, "copy")
	if got.code != 0 || !strings.Contains(got.err, "imported 401 files") || !strings.Contains(got.err, "and 120 directories") {
		t.Fatalf("import: %+v", got)
	}
	if n := wholeFiles(t, filepath.Join(root, "copy")); n != 401 {
		t.Errorf("%d files arrived, want 401", n)
	}
	if got := caprootRun(t, "", "check", root, "--receipts", receipts); got.code != 0 || !strings.Contains(got.err, "401 same, 0 not") {
		t.Errorf("check: %+v", got)
	}
	// Other content of the same size, a file made anew with the same content, a
	// file that is gone.
	must(t, os.WriteFile(filepath.Join(root, "copy", "d00", "0"), []byte("X\n"), 0o644))
	must(t, os.Remove(filepath.Join(root, "copy", "d01", "1")))
	must(t, os.WriteFile(filepath.Join(root, "copy", "d01", "1"), crowdContent(1), 0o644))
	must(t, os.Remove(filepath.Join(root, "copy", "d02", "2")))
	got = caprootRun(t, "", "check", "--json", root, receipts)
	if got.code != exitNo || !strings.Contains(got.err, "398 same, 3 not") || strings.Count(got.out, `"verdict":"same"`) != 398 {
		t.Errorf("check of a changed tree: exit %d, %s", got.code, got.err)
	}
	for _, want := range []string{
		`{"path":"copy/d00/0","verdict":"different","reason":"digest"}`, `{"path":"copy/d02/2","verdict":"error","reason":"not-exist"}`,
		`{"path":"copy/d01/1","verdict":"different",`,
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("check does not say %s", want)
		}
	}
}

// A directory is read in pieces, and each piece is copied.
func TestImportOfWideDirectory(t *testing.T) {
	base := t.TempDir()
	src, root := filepath.Join(base, "src"), filepath.Join(base, "root")
	must(t, os.Mkdir(src, 0o755))
	must(t, os.Mkdir(root, 0o755))
	const all = listed + 100
	for i := range all {
		must(t, os.WriteFile(filepath.Join(src, strconv.Itoa(i)), nil, 0o600))
	}
	got := caprootRun(t, "", "import", "-q", "--durability", "none", "--receipts", filepath.Join(base, "r"), src, root)
	if entries, err := os.ReadDir(root); got.code != 0 || err != nil || len(entries) != all {
		t.Errorf("import: %+v, %d entries of %d, %v", got, len(entries), all, err)
	}
}

// What the source becomes after it was looked at is refused, not followed
// (cases 13, 15): the plan says file, the file is a link by now.
func TestImportOfSwappedFile(t *testing.T) {
	needsLinks(t)
	base, root := tree(t)
	src := filepath.Join(base, "src")
	crowd(t, src, 300)
	cmd := command("import", "--durability", "none", src, root, "copy")
	out, err := cmd.StdoutPipe()
	must(t, err)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	must(t, cmd.Start())
	// The first receipt is there, so the plan is made; the pipe holds the import
	// up long before the last file.
	lines := bufio.NewReader(out)
	_, err = lines.ReadString('\n')
	must(t, err)
	last := filepath.Join(src, "d19", "299")
	must(t, os.Remove(last))
	must(t, os.Symlink("../d00/0", last))
	_, err = io.Copy(io.Discard, lines)
	must(t, err)
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(errOut.String(), `caproot: symlink: open "d19/299"`) {
		t.Errorf("exit %v, stderr %s", cmd.ProcessState, errOut.String())
	}
	if _, err := os.Lstat(filepath.Join(root, "copy", "d19", "299")); !os.IsNotExist(err) {
		t.Errorf("copy of a swapped file: %v, want none", err)
	}
}

func TestProgress(t *testing.T) {
	var line strings.Builder
	p := progress{to: &line, on: true, start: time.Now().Add(-2 * time.Second), files: 1, total: 4096}
	if _, err := p.count(strings.NewReader(strings.Repeat("x", 2048))).Read(make([]byte, 2048)); err != nil {
		t.Fatal(err)
	}
	p.clear()
	if got := line.String(); !strings.Contains(got, "2.0 KiB of 4.0 KiB in 1 files, ") || !strings.HasSuffix(got, "s left\r\x1b[K") {
		t.Errorf("progress %q", got)
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// A stage of another writer in the source is named and left out.
func TestImportLeavesStagesOut(t *testing.T) {
	base, root := tree(t)
	source := filepath.Join(base, "source")
	must(t, os.Mkdir(source, 0o755))
	stage := ".caproot-stage-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, name := range []string{stage, "whole"} {
		must(t, os.WriteFile(filepath.Join(source, name), []byte(name), 0o644))
	}
	got := caprootRun(t, "", "import", "--receipts", filepath.Join(base, "r"), source, root, "new")
	if got.code != exitRefused || !strings.Contains(got.err, "caproot: name: ") || !strings.Contains(got.err, stage) {
		t.Errorf("%+v", got)
	}
	left, err := os.ReadDir(filepath.Join(root, "new"))
	if err != nil || len(left) != 1 || left[0].Name() != "whole" {
		t.Errorf("%v, %v", left, err)
	}
}
