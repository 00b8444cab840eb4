package caproot

import "golang.org/x/sys/unix"

// pathFlags opens an object for metadata only. There is no O_PATH: O_EVTONLY
// keeps a volume from being busy by it, and O_NONBLOCK a FIFO from waiting.
const pathFlags = unix.O_EVTONLY | unix.O_NONBLOCK

// pathLeafFlags open a link itself.
const pathLeafFlags = unix.O_SYMLINK

// procFD is the directory of the process's own descriptors.
const procFD = "/dev/fd/"

type darwinSystem struct{ bsdSystem }

func hostSystem() system { return darwinSystem{} }

// rename has flags since macOS 10.12, on APFS and HFS+ (renameatx_np(2)).
func (darwinSystem) rename(from handle, name string, to handle, newName string, how renameHow) error {
	flags := [...]uint32{replacing: 0, noReplace: unix.RENAME_EXCL, exchanging: unix.RENAME_SWAP}[how]
	return retry(func() error { return unix.RenameatxNp(int(from), name, int(to), newName, flags) })
}

// flush asks the drive too, which fsync of macOS does not (fsync(2)); network
// and foreign file systems cannot.
func flush(h handle) error {
	_, err := unix.FcntlInt(uintptr(h), unix.F_FULLFSYNC, 0)
	switch err {
	case unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL:
		return unix.Fsync(int(h))
	}
	return err
}
