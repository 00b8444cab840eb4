package caproot

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// case 168: a copy of a deep tree costs neither stack nor descriptors, and no
// whole path for each name.
func TestCopyDeepTree(t *testing.T) {
	p := Workspace()
	p.Durability = DurabilityNone
	for _, workers := range []int{1, 4} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			depth := 20000
			if workers > 1 || r.beneath == nil {
				depth = 2500 // a whole path of it is longer than the kernel takes
			}
			must(t, os.Mkdir(base+"/root/deep", 0o755))
			t.Cleanup(func() { r.RemoveAll("deep") })
			deepTree(t, base+"/root/deep", depth)
			to := twin(t, r, base)
			defer to.Close()
			_, err := r.Put("deep/"+strings.Repeat("d/", depth)+"f", []byte("deep"), PutOptions{})
			must(t, err)
			fewHandles(t, 192) // the walk, a resolution and the copy hold 50 each
			o := TreeCopyOptions{Workers: workers, File: CopyOptions{KeepMode: true}}
			report, err := to.CopyTree(t.Context(), "deep", r, "deep", o)
			must(t, err)
			if report.Dirs != int64(depth) || report.Files != 1 {
				t.Errorf("%+v", report)
			}
			if data, err := to.ReadFile("deep/" + strings.Repeat("d/", depth) + "f"); string(data) != "deep" {
				t.Errorf("%q, %v", data, err)
			}
			for _, at := range []int{1, nearDepth, nearDepth + 1, nearDepth + 2, depth} {
				if st, err := to.Stat("deep/" + strings.Repeat("d/", at)); err != nil || st.Mode().Perm() != 0o755 {
					t.Errorf("depth %d: %v, %v", at, st, err)
				}
			}
			must(t, to.RemoveAll("deep"))
			must(t, r.RemoveAll("deep"))
		})
	}
}

// comb makes a tree with two files, two names of a third, a link and a side way of
// its own depth in each of n directories, one in the other.
func comb(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for i := range n {
		for name, text := range map[string]string{"a": "a", "z": "z", "n": "n"} {
			must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/%s", fd, name), fmt.Append(nil, text, i), 0o640))
		}
		must(t, unix.Linkat(fd, "n", fd, "m", 0))
		must(t, unix.Symlinkat("a", fd, "l"))
		must(t, os.MkdirAll(fmt.Sprintf("/proc/self/fd/%d/s/%s", fd, strings.Repeat("x/", i%(2*nearHeld))), 0o750))
		must(t, unix.Mkdirat(fd, "d", 0o710))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

// case 168: a copy that goes up and down between directories that it holds, and
// such that it let go, puts each entry where its source is.
func TestCopyDeepComb(t *testing.T) {
	p := Workspace()
	p.Durability = DurabilityNone
	for workers, granted := range map[int]bool{1: true, 4: false} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.Mkdir(base+"/root/comb", 0o755))
			comb(t, base+"/root/comb", 5*nearHeld)
			to := twin(t, r, base)
			defer to.Close()
			if granted {
				sub, err := to.Grant(".", Grant{Policy: p, Deny: []string{"secret"}, Budget: &Budget{Bytes: 1 << 20, Files: 1 << 20}})
				must(t, err)
				defer sub.Close()
				to = sub
			}
			before := describeTree(t, base+"/root/comb")
			o := TreeCopyOptions{Symlinks: LinksKeep, Hardlinks: LinksKeep, Workers: workers, File: CopyOptions{KeepMode: true}}
			if _, err := to.CopyTree(t.Context(), "comb", r, "comb", o); err != nil {
				t.Fatal(err)
			}
			if got := describeTree(t, base+"/twin/comb"); got != before {
				t.Errorf("the copy is\n%.2000s\nits source\n%.2000s", got, before)
			}
		})
	}
}

// describeTree tells name, mode, number of links and content of each object of a tree.
func describeTree(t *testing.T, dir string) string {
	t.Helper()
	r, err := Open(dir, Compat())
	must(t, err)
	defer r.Close()
	var b strings.Builder
	for e, err := range r.Walk(t.Context(), ".", WalkOptions{Sorted: true, Info: true}) {
		must(t, err)
		st, err := e.Info()
		must(t, err)
		text := ""
		switch {
		case e.Type().IsRegular():
			data, err := r.ReadFile(e.Path())
			must(t, err)
			text = string(data)
		case !e.IsDir():
			text, err = r.Readlink(e.Path())
			must(t, err)
		}
		fmt.Fprintf(&b, "%d %s %v %q\n", e.Depth(), e.Name(), st.Mode(), text)
		if e.Type().IsRegular() {
			id, err := r.Receipt(e.Path())
			must(t, err)
			fmt.Fprintf(&b, "%d links\n", id.Nlink)
		}
	}
	return b.String()
}
