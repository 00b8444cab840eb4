package caproot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func eachRemover(t *testing.T, test func(t *testing.T, o TreeLimits)) {
	t.Helper()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("workers=%d", n), func(t *testing.T) { test(t, TreeLimits{Workers: n}) })
	}
}

// growBranches makes a tree of 1+n+n*n directories and n*n*n files under dir.
func growBranches(t *testing.T, dir string, n int) (entries int64) {
	t.Helper()
	for i := range n {
		for j := range n {
			sub := fmt.Sprintf("%s/%d/%d", dir, i, j)
			must(t, os.MkdirAll(sub, 0o755))
			for k := range n {
				must(t, os.WriteFile(fmt.Sprintf("%s/%d", sub, k), nil, 0o644))
			}
		}
	}
	return int64(1 + n + n*n + n*n*n)
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func TestRemoveTree(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			entries := growBranches(t, base+"/root/tree", 10)
			if makesLinks(t) {
				symlink(t, base+"/outside", base+"/root/tree/3/link")
				entries++
			}
			if hasFIFOs {
				mkfifo(t, base+"/root/tree/fifo")
				entries++
			}
			report, err := r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
			if report.Removed != entries || len(report.Left) != 0 {
				t.Errorf("%+v, want %d removed", report, entries)
			}
			gone(t, base+"/root/tree")
			_, err = r.RemoveTree(t.Context(), "tree", o)
			want(t, "absent", err, fs.ErrNotExist)
			_, err = r.RemoveTree(t.Context(), "missing/tree", o)
			want(t, "absent parent", err, fs.ErrNotExist)
			o.Force = true
			_, err = r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
			if !makesLinks(t) {
				return
			}
			symlink(t, "dir", base+"/root/link")
			_, err = r.RemoveTree(t.Context(), "link/", o)
			want(t, "link/", err, ErrSymlink)
			_, err = r.RemoveTree(t.Context(), "link", o)
			must(t, err)
			gone(t, base+"/root/link")
			if _, err := os.Stat(base + "/root/dir/file"); err != nil {
				t.Error(err)
			}
		})
	})
}

// case 174: budgets are exact, and nothing more is removed once they are spent.
func TestRemoveTreeBudgets(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			for _, limit := range []int64{1, 2, 258, 259, 0} {
				entries := growBranches(t, base+"/root/tree", 6)
				o.MaxEntries = limit
				report, err := r.RemoveTree(t.Context(), "tree", o)
				if limit != 0 && limit < entries {
					want(t, fmt.Sprint("limit ", limit), err, ErrTooLarge)
					if report.Removed != limit {
						t.Errorf("limit %d: %d removed", limit, report.Removed)
					}
				} else if err != nil || report.Removed != entries {
					t.Errorf("limit %d: %+v, %v", limit, report, err)
				}
				must(t, os.RemoveAll(base+"/root/tree"))
			}
			for depth, fits := range map[int]bool{1: false, 64: false, 65: true, 0: true} {
				must(t, os.MkdirAll(base+"/root/tree"+strings.Repeat("/d", 65), 0o755))
				_, err := r.RemoveTree(t.Context(), "tree", TreeLimits{MaxDepth: depth, Workers: o.Workers})
				if fits {
					must(t, err)
				} else {
					want(t, fmt.Sprint("depth ", depth), err, ErrTooLarge)
					if _, err := os.Stat(base + "/root/tree" + strings.Repeat("/d", 65)); err != nil {
						t.Errorf("depth %d: removed before the refusal: %v", depth, err)
					}
				}
			}
			must(t, os.RemoveAll(base+"/root/tree"))
		})
	})
}

// removeFault runs before each removal and may answer it.
type removeFault struct {
	system
	before func(name string, isDir bool) error
}

func (f *removeFault) remove(dir handle, name string, isDir bool) error {
	if err := f.before(name, isDir); err != nil {
		return err
	}
	return f.system.remove(dir, name, isDir)
}

// cases 170, 178: what cannot be removed is told, with everything else gone.
func TestRemoveTreeReportsWhatIsLeft(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			entries := growBranches(t, base+"/root/tree", 5)
			for i := range 300 {
				must(t, os.WriteFile(fmt.Sprintf("%s/root/tree/4/stuck%03d", base, i), nil, 0o644))
			}
			real := r.sys
			r.sys = &removeFault{real, func(name string, _ bool) error {
				if strings.HasPrefix(name, "stuck") {
					return syscall.EIO
				}
				return nil
			}}
			report, err := r.RemoveTree(t.Context(), "tree", o)
			r.sys = real
			want(t, "RemoveTree", err, syscall.EIO)
			if report.Removed != entries-2 || len(report.Left) != maxReported || report.LeftMore != 200 || report.Left[0].Path != "tree/4/stuck"+report.Left[0].Path[len("tree/4/stuck"):] {
				t.Errorf("%d removed, %d left, %d more, first %+v", report.Removed, len(report.Left), report.LeftMore, report.Left[0])
			}
			names, err := os.ReadDir(base + "/root/tree")
			must(t, err)
			if len(names) != 1 {
				t.Errorf("left: %v", names)
			}
			report, err = r.RemoveTree(t.Context(), "tree", o)
			must(t, err)
		})
	})
}

// A directory is removed only as the one that was emptied. case 165.
func TestRemoveTreeReplaced(t *testing.T) {
	notUnderWine(t, "acts on the path that a handle was opened by")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			must(t, os.MkdirAll(base+"/root/tree/sub", 0o755))
			must(t, os.WriteFile(base+"/root/tree/sub/file", nil, 0o644))
			real := r.sys
			r.sys = &removeFault{real, func(name string, isDir bool) error {
				if name == "file" {
					must(t, os.Rename(base+"/root/tree/sub", base+"/root/kept"))
					must(t, os.Mkdir(base+"/root/tree/sub", 0o700))
				}
				return nil
			}}
			report, err := r.RemoveTree(t.Context(), "tree", o)
			r.sys = real
			want(t, "replaced", err, ErrChanged)
			if len(report.Left) != 1 || report.Left[0].Path != "tree/sub" {
				t.Errorf("%+v", report)
			}
			must(t, os.Remove(base+"/root/kept"))

			receipt, err := r.Receipt("tree")
			must(t, err)
			must(t, os.Rename(base+"/root/tree", base+"/root/old"))
			must(t, os.MkdirAll(base+"/root/tree/new", 0o755))
			o.IfMatch = &receipt
			_, err = r.RemoveTree(t.Context(), "tree", o)
			want(t, "another directory", err, ErrChanged)
			_, err = r.RemoveTree(t.Context(), "old", o)
			must(t, err)
			must(t, os.RemoveAll(base+"/root/tree"))
		})
	})
}

func TestRemoveTreeCanceled(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			growBranches(t, base+"/root/tree", 10)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cause := errors.New("enough")
			real := r.sys
			r.sys = &removeFault{real, func(string, bool) error { cancel(cause); return nil }}
			report, err := r.RemoveTree(ctx, "tree", o)
			r.sys = real
			want(t, "canceled", err, cause)
			if report.Removed == 0 || report.Removed > 20 {
				t.Errorf("%d removed", report.Removed)
			}
			must(t, r.RemoveAll("tree"))
		})
	})
}

// case 174: what cannot be removed at the greatest depth spends no budget, so the
// rest is tried and told.
func TestRemoveTreeBudgetOfWhatStays(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		eachRemover(t, func(t *testing.T, o TreeLimits) {
			for _, dir := range []string{"m1", "m2", "m3"} {
				must(t, os.MkdirAll(base+"/root/tree/"+dir, 0o755))
			}
			must(t, os.WriteFile(base+"/root/tree/f", nil, 0o644))
			real := r.sys
			r.sys = &removeFault{real, func(name string, _ bool) error {
				if name[0] == 'm' {
					return syscall.EBUSY
				}
				return nil
			}}
			o.MaxDepth, o.MaxEntries = 1, 2
			report, err := r.RemoveTree(t.Context(), "tree", o)
			r.sys = real
			want(t, "RemoveTree", err, syscall.EBUSY)
			if errors.Is(err, ErrTooLarge) || report.Removed != 1 || len(report.Left) != 3 {
				t.Errorf("%+v, %v", report, err)
			}
			must(t, r.RemoveAll("tree"))
		})
	})
}
