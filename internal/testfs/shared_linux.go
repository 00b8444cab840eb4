package testfs

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedBytes is one page.
const sharedBytes = 4096

// SharedCounters maps the file of that name, which it makes if it is missing:
// 512 numbers that all processes which map it share, until they end.
func SharedCounters(name string) ([]atomic.Int64, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(sharedBytes); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// SAFETY: a mapping begins at a page, and atomic.Int64 is eight bytes of it.
	return unsafe.Slice((*atomic.Int64)(unsafe.Pointer(&memory[0])), sharedBytes/8), nil
}
