package blocklog

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	diskID   = 2 // the number of the file
	diskName = "disk"
	// Sector is what a disk writes whole or not at all. With 512, as of old disks,
	// the superblocks of ext4, which span two, may be torn, and it does not mount.
	Sector = 4096
)

// entry is a write, or a flush if data is nil.
type entry struct {
	offset int64
	data   []byte
}

// Disk is a file in a FUSE file system, which a loop device shows as a disk. The
// kernel sends the writes of the file system on it, and for each of its flushes an
// fsync, which is logged.
type Disk struct {
	fuse.RawFileSystem
	mu      sync.Mutex
	base    []byte // as it was at first
	now     []byte
	entries []entry
}

// New returns a disk with the content of an image.
func New(image []byte) *Disk {
	return &Disk{RawFileSystem: fuse.NewDefaultRawFileSystem(), base: image, now: append([]byte(nil), image...)}
}

// String is the name that the table of mounts has.
func (d *Disk) String() string { return "blocklog" }

// Attach serves the disk at an empty directory and returns the path of a loop
// device with it, and what ends both. The device must not be in use then.
func (d *Disk) Attach(dir string) (device string, detach func(), err error) {
	s, err := fuse.NewServer(d, dir, &fuse.MountOptions{DirectMountStrict: true, DisableXAttrs: true, DisableSplice: true, Logger: log.New(io.Discard, "", 0)})
	if err != nil {
		return "", nil, err
	}
	go s.Serve()
	if err := s.WaitMount(); err != nil {
		return "", nil, err
	}
	unmount := func() { syscall.Unmount(dir, syscall.MNT_FORCE|syscall.MNT_DETACH) }
	device, free, err := Loop(filepath.Join(dir, diskName))
	if err != nil {
		unmount()
		return "", nil, err
	}
	return device, func() { free(); unmount() }, nil
}

// Loop makes a loop device of a file. free lets it go when nothing uses it.
func Loop(file string) (device string, free func(), err error) {
	back, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer back.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(back.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", nil, err
		}
		device = fmt.Sprintf("/dev/loop%d", n)
		loop, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return "", nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return device, func() { loop.Close() }, nil
		}
		loop.Close()
		if err != unix.EBUSY { // somebody else was faster
			return "", nil, err
		}
	}
	runtime.KeepAlive(back)
	return "", nil, unix.EBUSY
}

// Position is how many writes and flushes there were.
func (d *Disk) Position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries)
}

// Cut is the disk after a loss of power at a position: with all that was written
// before the last flush, and of what was written since then each sector or not,
// as random says; a nil random keeps none.
func (d *Disk) Cut(position int, random *rand.Rand) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	image := append([]byte(nil), d.base...)
	flushed := 0
	for i, e := range d.entries[:position] {
		if e.data == nil {
			flushed = i
		}
	}
	for i, e := range d.entries[:position] {
		for at := 0; at < len(e.data); {
			end := min(at+Sector-int(e.offset+int64(at))%Sector, len(e.data))
			if i < flushed || random != nil && random.IntN(2) == 0 {
				copy(image[e.offset+int64(at):], e.data[at:end])
			}
			at = end
		}
	}
	return image
}

// Flushes is how many of the entries are flushes.
func (d *Disk) Flushes() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.data == nil {
			n++
		}
	}
	return n
}
