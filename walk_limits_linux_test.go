package caproot

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// case 173: a mount point, of the root itself too, is entered only when asked.
func TestWalkMounts(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.Mkdir(base+"/root/dir/m", 0o755))
			if err := unix.Mount(base+"/outside", base+"/root/dir/m", "", unix.MS_BIND, ""); err != nil {
				t.Skipf("no bind mount: %v", err)
			}
			defer unix.Unmount(base+"/root/dir/m", unix.MNT_DETACH)
			eachWorkers(t, func(t *testing.T, o WalkOptions) {
				o.InlineErrors = true
				wantPaths(t, "stay", walked(t, r, "dir", o), "dir/file", "dir/m", "dir/m: mount")
				o.Mounts, o.Info = MountsCross, true
				if p.Mounts == MountsCross {
					wantPaths(t, "cross", walked(t, r, "dir", o), "dir/file", "dir/m", "dir/m/secret")
				} else {
					wantPaths(t, "refused", walked(t, r, "dir", o), "dir/file", "dir/m", "dir/m: mount")
				}
			})
		})
	}
}

// deepTree makes n directories below each other without a path for them.
func deepTree(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range n {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

// fewHandles lowers the limit of descriptors for one test.
func fewHandles(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
	t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
}

// case 168: 20,000 directories below each other, walked, and removed, with 64 descriptors.
func TestDeepTree(t *testing.T) {
	const depth = 20000
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/deep", 0o755))
		t.Cleanup(func() { r.RemoveAll("deep") })
		deepTree(t, base+"/root/deep", depth)
		must(t, os.WriteFile(base+"/root/deep/d/d/beside", nil, 0o644))
		fewHandles(t, 64)
		for _, o := range []WalkOptions{{}, {Sorted: true}} {
			n, last := 0, Entry{}
			for e, err := range r.Walk(t.Context(), "deep", o) {
				must(t, err)
				if n++; e.Depth() > last.depthOrZero() {
					last = e
				}
			}
			if n != depth+1 || last.Depth() != depth || len(last.Path()) != len("deep")+2*depth {
				t.Errorf("%d entries, the last at depth %d with a path of %d", n, last.Depth(), len(last.Path()))
			}
		}
		must(t, r.RemoveAll("deep"))
	})
}

func (e Entry) depthOrZero() int {
	if e.dir == nil {
		return 0
	}
	return e.Depth()
}

// A directory of a million entries is walked in flat memory.
func TestWalkMillion(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	const names = 1000000
	r, dir := smallDisk(t, "nr_inodes=1100000")
	must(t, os.Mkdir(dir+"/many", 0o755))
	must(t, os.WriteFile(dir+"/many/0", nil, 0o644))
	many, err := os.Open(dir + "/many")
	must(t, err)
	defer many.Close()
	for i := 1; i < names; i++ {
		must(t, unix.Linkat(int(many.Fd()), "0", int(many.Fd()), strconv.Itoa(i), 0))
	}
	beneath, sys := r.beneath, r.sys
	for _, resolver := range resolvers() {
		r.beneath, r.sys = beneath, sys
		if resolver == "walker" {
			r.beneath, r.sys = nil, walkOnly{sys}
		}
		t.Run(resolver, func(t *testing.T) {
			eachWorkers(t, func(t *testing.T, o WalkOptions) { walkFlat(t, r, o, names) })
		})
	}
}

// walkFlat walks as many names, and 4 MiB more than before are never held.
func walkFlat(t *testing.T, r *Root, o WalkOptions, names int) {
	t.Helper()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	n, most := 0, uint64(0)
	for _, err := range r.Walk(t.Context(), "many", o) {
		must(t, err)
		if n++; n%(names/10) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	if n != names || most > before.HeapAlloc+4<<20 {
		t.Errorf("%d entries, heap from %d to %d", n, before.HeapAlloc, most)
	}
}
