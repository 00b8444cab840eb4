package blocklog

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

func (d *Disk) attr(id uint64, out *fuse.Attr) {
	*out = fuse.Attr{Ino: id, Mode: syscall.S_IFDIR | 0o700, Nlink: 2, Blksize: 4096}
	if id == diskID {
		out.Mode, out.Nlink, out.Size = syscall.S_IFREG|0o600, 1, uint64(len(d.base))
		out.Blocks = out.Size / Sector
	}
}

// Lookup finds the one file.
func (d *Disk) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name != diskName {
		return fuse.ENOENT
	}
	out.NodeId = diskID
	d.attr(diskID, &out.Attr)
	return fuse.OK
}

// GetAttr describes the file, or the directory.
func (d *Disk) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	d.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

// SetAttr changes nothing.
func (d *Disk) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	d.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

// Open opens the file; nothing of it is cached.
func (d *Disk) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

// Read reads what was written last.
func (d *Disk) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := min(in.Offset, uint64(len(d.now)))
	return fuse.ReadResultData(buf[:copy(buf, d.now[at:])]), fuse.OK
}

// Write writes and logs.
func (d *Disk) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in.Offset+uint64(len(data)) > uint64(len(d.now)) {
		return 0, fuse.Status(syscall.ENOSPC)
	}
	copy(d.now[in.Offset:], data)
	d.entries = append(d.entries, entry{int64(in.Offset), append([]byte{}, data...)})
	return uint32(len(data)), fuse.OK
}

// Fsync logs a flush. What was written before it has been answered, and is logged.
func (d *Disk) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry{})
	return fuse.OK
}

// Flush is nothing: closing the file is no flush of the disk.
func (d *Disk) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }
