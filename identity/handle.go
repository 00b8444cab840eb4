package identity

import "encoding/binary"

// Handle types of linux/exportfs.h, and of overlay (fs/overlayfs).
const (
	fidIno32   = 0x01 // 32 bits of number, 32 of generation
	fidIno64   = 0x81 // 64 bits of number, 32 of generation
	fidOverlay = 0xf8 // a header, then the handle of the layer below
)

// Layout of an overlay handle: three bytes to align it, version, magic, length,
// flags, the type of the handle inside, and the UUID of the layer.
const (
	overlayInnerType = 7
	overlayInner     = 24
)

// lasting returns the handle if it can outlive the reuse of a file number, else
// "".
//
// The kernel writes the two generic layouts also for file systems that keep no
// generation, which is then 0 (since Linux 6.7 under AT_HANDLE_FID; measured on
// ramfs and procfs, Linux 6.18). FUSE writes the server's node number, which many
// servers count afresh at each mount or look-up, again with generation 0. Such a
// handle says no more than a number. Any other layout is the file system's own
// statement that it names the object for good, and is believed.
func lasting(handle string) string {
	if len(handle) > 4 && zeroGeneration(binary.BigEndian.Uint32([]byte(handle)), handle[4:]) {
		return ""
	}
	return handle
}

func zeroGeneration(kind uint32, body string) bool {
	switch {
	case kind == fidIno32 && len(body) == 8:
		return body[4:] == "\x00\x00\x00\x00"
	case kind == fidIno64 && len(body) == 12:
		return body[8:] == "\x00\x00\x00\x00"
	case kind == fidOverlay && len(body) > overlayInner:
		return zeroGeneration(uint32(body[overlayInnerType]), body[overlayInner:])
	}
	return false
}
