package caproot

import (
	"io"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// mostListing bounds the memory of one listing, in bytes.
const mostListing = 16 << 20

// list reads a directory in one go. There is no call for a part of it: x/sys passes
// over as many entries as it gave before, which loses some when others were removed
// meanwhile, and takes the square of their number.
func (s darwinSystem) list(h handle, scratch []byte) ([]direntry, error) {
	at, err := s.seek(h, 0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	if at != 0 {
		return s.unixSystem.list(h, scratch)
	}
	listing, err := growing(scratch, int(unsafe.Sizeof(unix.Dirent{})), mostListing, func(buf []byte) (n int, err error) {
		err = retry(func() (err error) {
			n, err = unix.ReadDirent(int(h), buf)
			return err
		})
		return n, err
	}, func() error {
		_, err := s.seek(h, 0, io.SeekStart)
		return err
	})
	if err != nil {
		return nil, err
	}
	return dirents(listing)
}

// flush asks the drive too, which fsync of macOS does not (fsync(2)).
func flush(h handle) error {
	full := func() error {
		_, err := unix.FcntlInt(uintptr(h), unix.F_FULLFSYNC, 0)
		return err
	}
	return fullSync(full, func() error { return unix.Fsync(int(h)) })
}

// O_NOFOLLOW_ANY is of macOS 10.15 and O_RESOLVE_BENEATH of a later XNU
// (sys/fcntl.h); before, their bits were ignored.
const (
	noFollowAny    = 0x20000000
	resolveBeneath = 0x00001000
)

// guards are the flags of this kernel that refuse what a walk by single
// components, without following, does not ask for in the first place: a link or
// a way out inside of a name. Each is tried on a path that only it refuses: /etc
// is a link, and ".." leads out of /dev.
var guards = sync.OnceValue(func() (flags int) {
	if refuses(unix.AT_FDCWD, "/etc/.", noFollowAny) && !refuses(unix.AT_FDCWD, "/dev/.", noFollowAny) {
		flags |= noFollowAny
	}
	return flags | guardBeneath(resolveBeneath)
})
