package caproot

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// cases 37, 38: sockets and devices are refused before a read.
func TestReadOfSpecialFiles(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		names := []string{"fifo", "socket"}
		mkfifo(t, base+"/root/fifo")
		must(t, unix.Mknod(base+"/root/socket", unix.S_IFSOCK|0o600, 0))
		if unix.Mknod(base+"/root/zero", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) == nil {
			names = append(names, "zero")
		}
		for _, name := range names {
			for _, verb := range []string{"ReadFile", "Open", "OpenView", "WriteFile", "Append", "Put", "Truncate"} {
				want(t, verb+" "+name, verbs(r)[verb](name), ErrSpecial)
			}
			_, err := r.Receipt(name, WithDigest)
			must(t, err) // it is described, not read
		}
	})
}

// The hot verbs allocate what they return, and nothing else.
func TestAllocations(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/a/b/c", 0o755))
		const name = "a/b/c/file"
		must(t, os.WriteFile(base+"/root/"+name, make([]byte, 64<<10), 0o600))
		buf := make([]byte, 0, 65<<10)
		for verb, c := range map[string]struct {
			most float64
			call func() error
		}{
			"OpenView": {1, func() error {
				f, err := r.OpenView(name, os.O_RDONLY, 0)
				if err == nil {
					err = f.Close()
				}
				return err
			}},
			"ReadFile":   {1, func() error { _, err := r.ReadFile(name); return err }},
			"AppendFile": {0, func() error { _, err := r.AppendFile(buf, name); return err }},
			"Exists":     {0, func() error { _, err := r.Exists(name); return err }},
			"Stat":       {1, func() error { _, err := r.Stat(name); return err }},
			"Lstat":      {1, func() error { _, err := r.Lstat(name); return err }},
		} {
			must(t, c.call())
			if n := testing.AllocsPerRun(100, func() { c.call() }); n > c.most {
				t.Errorf("%s: %v allocations, at most %v", verb, n, c.most)
			}
		}
	})
}
