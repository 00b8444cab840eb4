//go:build linux || darwin || freebsd

package caproot

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// list reads one buffer of entries.
func (unixSystem) list(h handle, scratch []byte) ([]direntry, error) {
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.ReadDirent(int(h), scratch)
			return err
		})
		if err != nil || n <= 0 {
			return nil, err
		}
		entries, err := dirents(scratch[:min(n, len(scratch))])
		// A buffer with only "." and ".." is not the end.
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
}

// The offsets come from the system's own struct, so one parser serves all. The
// number of an entry, its first field, is 64 bits wide everywhere.
const (
	reclenAt = unsafe.Offsetof(unix.Dirent{}.Reclen)
	typeAt   = unsafe.Offsetof(unix.Dirent{}.Type)
	nameAt   = unsafe.Offsetof(unix.Dirent{}.Name)
)

// dirents reads the records of a listing, without "." and "..". A record or name
// that a file system cannot give is EIO, as from Linux itself (verify_dirent_name).
func dirents(buf []byte) ([]direntry, error) {
	entries := make([]direntry, 0, len(buf)/32)
	for len(buf) > 0 {
		if len(buf) < int(nameAt) {
			return nil, syscall.EIO
		}
		length := int(binary.NativeEndian.Uint16(buf[reclenAt:]))
		if length < int(nameAt) || length > len(buf) {
			return nil, syscall.EIO
		}
		record := buf[:length]
		buf = buf[length:]
		if vacantIsZero && binary.NativeEndian.Uint64(record) == 0 {
			continue
		}
		name, _, _ := bytes.Cut(record[nameAt:], []byte{0})
		if len(name) == 0 || bytes.IndexByte(name, '/') >= 0 {
			return nil, syscall.EIO
		}
		if s := string(name); s != "." && s != ".." {
			mode, typed := direntType(record[typeAt])
			entries = append(entries, direntry{name: s, mode: mode, typed: typed})
		}
	}
	return entries, nil
}

// growing reads a listing whole, by fill into buffers of twice the size each, until
// one of them is not full: fill had room for another record then. Rewind begins anew
// before. A listing of more than most bytes is left after its first part.
func growing(buf []byte, record, most int, fill func([]byte) (int, error), rewind func() error) ([]byte, error) {
	for {
		n, err := fill(buf)
		if err != nil {
			return nil, err
		}
		if n+record <= len(buf) || 2*len(buf) > most {
			return buf[:n], nil
		}
		if err := rewind(); err != nil {
			return nil, err
		}
		buf = make([]byte, 2*len(buf))
	}
}
