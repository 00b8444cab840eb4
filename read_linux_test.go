package caproot

import (
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
