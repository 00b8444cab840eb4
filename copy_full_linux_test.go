package caproot

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func naiveCopy(dir string, copied func(string)) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := dir + "/" + e.Name()
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			continue
		} else if info.IsDir() {
			naiveCopy(path, copied)
		} else if _, err := os.ReadFile(path); err == nil {
			copied(path)
		}
	}
}

// case 94: a copy onto a full disk leaves whole files only.
func TestCopyTreeFullDisk(t *testing.T) {
	r, dir := smallDisk(t, "size=64k")
	source := t.TempDir()
	for i := range 20 {
		must(t, os.WriteFile(fmt.Sprintf("%s/%02d", source, i), make([]byte, 8<<10), 0o644))
	}
	src, err := Open(source, ReadOnly())
	must(t, err)
	defer src.Close()
	for _, workers := range []int{1, 4} {
		report, err := r.CopyTree(t.Context(), "copy", src, ".", TreeCopyOptions{GoOn: true, Workers: workers})
		want(t, "CopyTree", err, syscall.ENOSPC)
		entries, _ := os.ReadDir(dir + "/copy")
		if int64(len(entries)) != report.Files || report.Files == 0 || int(report.Files)+len(report.Left) != 20 {
			t.Errorf("%+v, %d entries", report, len(entries))
		}
		for _, e := range entries {
			if info, _ := e.Info(); info.Size() != 8<<10 || strings.HasPrefix(e.Name(), stagePrefix) {
				t.Errorf("%s: %d bytes", e.Name(), info.Size())
			}
		}
		must(t, r.RemoveAll("copy"))
	}
}
