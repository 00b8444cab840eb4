package caproot

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// case 168: what a move to another file system remembers of a tree does not grow
// with the length of its paths.
func TestMoveAcrossLongPaths(t *testing.T) {
	const levels, most = 600, 16 << 20 // the paths alone are 45 MB
	eachDevice(t, "size=64m", func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/long", 0o755))
		fd, err := unix.Open(base+"/root/long", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		name := strings.Repeat("n", 250)
		for range levels {
			must(t, unix.Mkdirat(fd, name, 0o755))
			next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
			must(t, err)
			unix.Close(fd)
			fd = next
		}
		unix.Close(fd)
		held := func() uint64 {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			return now.HeapAlloc
		}
		before, after := held(), uint64(0)
		sub, err := r.Grant(".", Grant{Policy: Compat(), Before: func(m Mutation) error {
			if m.Step == StepPublish && m.Path == "m/new" {
				after = held()
			}
			return nil
		}})
		must(t, err)
		_, err = sub.Move("long", "m/new", MoveOptions{CrossDevice: true})
		must(t, err)
		if after == 0 || after > before+most {
			t.Errorf("heap from %d to %d", before, after)
		}
		must(t, sub.Close())
	})
}
