package caproot

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// needsReuse skips a test where a number that is free does not come back at once.
func needsReuse(t *testing.T, dir string) {
	t.Helper()
	for range 100 { // others may take it
		if reusesNumbers(t, dir) {
			return
		}
	}
	t.Skip("this file system does not give a free number to the next file")
}

// case 68: what takes the name and the number of the object of a receipt is not
// removed in its place, before whichever call it comes; but see RACE.
func TestRemoveTreeMatchesOneObject(t *testing.T) {
	objects := map[string][2]func(path string) error{
		"directory": {
			func(path string) error { return os.Mkdir(path, 0o755) },
			func(path string) error { return os.MkdirAll(path+"/foreign", 0o755) },
		},
		"file": {
			func(path string) error { return os.WriteFile(path, nil, 0o644) },
			func(path string) error { return os.WriteFile(path, nil, 0o644) },
		},
	}
	for kind, object := range objects {
		t.Run(kind, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				needsReuse(t, base)
				eachRemover(t, func(t *testing.T, o TreeLimits) {
					for n := 1; removeReplaced(t, r, base+"/root/d", o, n, object[0], object[1]); n++ {
					}
				})
			})
		})
	}
}

// removeReplaced removes d, which the second object replaces before the n-th
// call, and reports whether there were as many.
func removeReplaced(t *testing.T, r *Root, path string, o TreeLimits, n int, first, second func(path string) error) bool {
	t.Helper()
	must(t, first(path))
	receipt, err := r.Receipt("d")
	must(t, err)
	o.IfMatch = &receipt
	calls, at := 0, ""
	real := r.sys
	hook(r, func(event string) error {
		if calls++; calls == n {
			at = event
			must(t, os.RemoveAll(path))
			must(t, second(path))
		}
		return nil
	})
	_, err = r.RemoveTree(t.Context(), "d", o)
	r.sys = real
	if calls < n {
		must(t, err)
		return false
	}
	left, _ := os.Lstat(path)
	switch foreign, _ := os.Lstat(path + "/foreign"); {
	case left == nil && at == "remove d":
	case left == nil || left.IsDir() && foreign == nil:
		t.Errorf("replaced before call %d, %q: the other one was removed or emptied: %v", n, at, err)
	case !errors.Is(err, ErrChanged):
		t.Errorf("replaced before call %d, %q: %v", n, at, err)
	}
	must(t, os.RemoveAll(path))
	return true
}

// A directory that another worker emptied is removed by its name only if it is
// the same: its number alone may have come back.
func TestRemoveTreeByWorkersReplaced(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		needsReuse(t, base)
		real := r.sys
		inOrder := &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
			entries, err := real.list(h, scratch)
			slices.SortFunc(entries, func(a, b direntry) int { return strings.Compare(a.name, b.name) })
			return entries, err
		}}
		for range 20 {
			must(t, os.MkdirAll(base+"/root/tree/given", 0o755))
			must(t, os.WriteFile(base+"/root/tree/given/file", nil, 0o644))
			must(t, os.WriteFile(base+"/root/tree/last", nil, 0o644))
			time.Sleep(10 * time.Millisecond) // so that the next directory has another time of birth
			begun := make(chan struct{})
			r.sys = inOrder
			swapped := false
			hook(r, func(event string) error {
				switch {
				case event == "remove file": // by another worker
					close(begun)
				case event == "remove last":
					<-begun
				case event == "stat given" && !swapped:
					swapped = true
					must(t, os.Remove(base+"/root/tree/given"))
					must(t, os.Mkdir(base+"/root/tree/given", 0o755))
				}
				return nil
			})
			_, err := r.RemoveTree(t.Context(), "tree", TreeLimits{Workers: 4})
			r.sys = real
			want(t, "replaced", err, ErrChanged)
			must(t, os.RemoveAll(base+"/root/tree"))
		}
	})
}
