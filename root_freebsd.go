package caproot

import (
	"sync"

	"golang.org/x/sys/unix"
)

// pathFlags is O_PATH of FreeBSD 13.1 (fcntl.h).
const pathFlags = 0x00400000

// pathLeafFlags open a link itself.
const pathLeafFlags = unix.O_NOFOLLOW

// procFD is the directory of the process's own descriptors, beyond the first
// three only where fdescfs is mounted.
const procFD = "/dev/fd/"

type freebsdSystem struct{ bsdSystem }

func hostSystem() system { return freebsdSystem{} }

// rename has no flags.
func (freebsdSystem) rename(from handle, name string, to handle, newName string, how renameHow) error {
	if how != replacing {
		return unix.ENOTSUP
	}
	return retry(func() error { return unix.Renameat(int(from), name, int(to), newName) })
}

func flush(h handle) error { return unix.Fsync(int(h)) }

// resolveBeneath is O_RESOLVE_BENEATH of FreeBSD 13.0 (fcntl.h).
const resolveBeneath = 0x00800000

// guards are the flags of this kernel that refuse a way out inside of a name,
// which a walk by single components does not ask for in the first place.
var guards = sync.OnceValue(func() int { return guardBeneath(resolveBeneath) })
