package caproot

import "golang.org/x/sys/unix"

// countingTypes are the file systems whose handles hold a generation that is new
// with each use of a file number and stays for as long as the object does. Others
// change it under a living object: overlay gives a new birth time, and may give
// a new number, to what is copied up, FUSE a new node to what the kernel forgot.
var countingTypes = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.TMPFS_MAGIC: true,
}

func (linuxSystem) countsUses(h handle) bool {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Fstatfs(int(h), &st) })
	return err == nil && countingTypes[int64(st.Type)]
}
