package caproot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Walks and removals on every system that has a backend.
func TestTreesEverywhere(t *testing.T) {
	r, dir := openTree(t, Workspace())
	// Not so deep that a directory is let go: Wine gives one that changed a new
	// time of creation, and then it is not accepted as the same.
	deep := "dir" + strings.Repeat("/d", 40)
	must(t, r.MkdirAll(deep, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "dir/d/d/beside"), nil, 0o644))
	for _, workers := range []int{1, 4} {
		for _, sorted := range []bool{false, true} {
			var paths []string
			for e, err := range r.Walk(t.Context(), "dir", WalkOptions{Sorted: sorted, Workers: workers, Info: true}) {
				must(t, err)
				paths = append(paths, e.Path())
			}
			if len(paths) != 44 || !slices.Contains(paths, deep) || !slices.Contains(paths, "dir/d/d/beside") || sorted && !slices.IsSorted(paths) {
				t.Errorf("workers %d, sorted %v: %d entries, %q", workers, sorted, len(paths), paths)
			}
		}
	}
	matches, err := r.Glob("**/beside")
	must(t, err)
	if !slices.Equal(matches, []string{"dir/d/d/beside"}) {
		t.Errorf("glob: %q", matches)
	}
	report, err := r.RemoveTree(t.Context(), "dir/d", TreeLimits{MaxEntries: 40})
	if !errors.Is(err, ErrTooLarge) || report.Removed != 40 {
		t.Errorf("%+v, %v", report, err)
	}
	report, err = r.RemoveTree(t.Context(), "dir", TreeLimits{Workers: 4})
	must(t, err)
	if report.Removed != 5 {
		t.Errorf("%+v", report)
	}
	if _, err := os.Lstat(filepath.Join(dir, "dir")); err == nil {
		t.Error("still there")
	}
}

// deadStage has the form of a stage's name.
const deadStage = stagePrefix + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
