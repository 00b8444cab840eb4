package lock

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Magic numbers that x/sys does not have.
const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

// trustedTypes are the file systems of one kernel: every possible holder of a
// lock is a process of it, and the kernel drops the locks of the dead. Others
// answer for servers and hosts whose processes this kernel does not see.
var trustedTypes = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:      true, // ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.TMPFS_MAGIC:           true,
	unix.F2FS_SUPER_MAGIC:      true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
	zfsMagic:                   true,
	bcachefsMagic:              true,
}

func typeOf(f *os.File) (uint32, error) {
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(int(f.Fd()), &st)
		runtime.KeepAlive(f)
		if err != unix.EINTR {
			return uint32(st.Type), err
		}
	}
}

// viewOf tells through what a file is seen, and whether its lock is proof. A lock
// taken through an overlay is not seen by who opens the file in the layer
// below, so a record proves something only to those who see it the same way.
func viewOf(f *os.File) (view byte, proof bool) {
	t, err := typeOf(f)
	if err == nil && t == unix.OVERLAYFS_SUPER_MAGIC {
		view = 1
	}
	return view, err == nil && trustedTypes[t]
}
