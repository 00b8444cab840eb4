package lock

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/internal/seccomp"
)

// prepareProcess takes from this process what its environment says.
func prepareProcess() {
	if os.Getenv("CAPROOT_NO_TMPFILE") != "" {
		refuseTmpfile()
	}
}

// refuseTmpfile takes files without a name away from the whole process, as a
// file system without them would, so that records are made by the other maker.
func refuseTmpfile() {
	const flags = 2
	seccomp.Refuse(seccomp.Refusal{Call: unix.SYS_OPENAT, Errno: unix.EOPNOTSUPP, Arg: flags, Mask: unix.O_TMPFILE &^ unix.O_DIRECTORY})
}
