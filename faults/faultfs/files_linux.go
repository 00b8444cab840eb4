package faultfs

import (
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Create makes and opens a file.
func (f *FS) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return f.serve("create", name, func() syscall.Errno {
		out.OpenFlags = fuse.FOPEN_DIRECT_IO
		return f.add(in.NodeId, name, newNode(syscall.S_IFREG|in.Mode&0o7777, in.Owner), &out.EntryOut)
	})
}

// Tmpfile makes a file without a name.
func (f *FS) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	return f.serve("tmpfile", "", func() syscall.Errno {
		if f.o.NoUnnamed {
			return syscall.EOPNOTSUPP
		}
		n := newNode(syscall.S_IFREG|in.Mode&0o7777, in.Owner)
		n.nlink = 0
		f.number(n)
		f.entry(n, &out.EntryOut)
		out.OpenFlags = fuse.FOPEN_DIRECT_IO
		return 0
	})
}

// Open opens a file; every read and write of it is a request.
func (f *FS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.serve("open", "", func() syscall.Errno {
		if in.Flags&syscall.O_TRUNC != 0 {
			f.ids[in.NodeId].resize(0)
		}
		out.OpenFlags = fuse.FOPEN_DIRECT_IO
		return 0
	})
}

// Read reads, less than was asked for if ReadAtMost says so.
func (f *FS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (result fuse.ReadResult, _ fuse.Status) {
	status := f.serve("read", "", func() syscall.Errno {
		data := f.ids[in.NodeId].data
		data = data[min(in.Offset, uint64(len(data))):]
		if f.o.ReadAtMost > 0 {
			data = data[:min(len(data), f.o.ReadAtMost)]
		}
		result = fuse.ReadResultData(buf[:copy(buf, data)])
		return 0
	})
	return result, status
}

// Write writes, less than was asked for if WriteAtMost says so.
func (f *FS) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (written uint32, _ fuse.Status) {
	status := f.serve("write", "", func() syscall.Errno {
		if f.o.WriteAtMost > 0 {
			data = data[:min(len(data), f.o.WriteAtMost)]
		}
		n := f.ids[in.NodeId]
		if end := int(in.Offset) + len(data); end > len(n.data) {
			n.resize(end)
		}
		copy(n.data[in.Offset:], data)
		n.mtime = time.Now()
		written = uint32(len(data))
		return 0
	})
	return written, status
}

// Flush is what close(2) waits for.
func (f *FS) Flush(_ <-chan struct{}, _ *fuse.FlushIn) fuse.Status {
	return f.serve("flush", "", func() syscall.Errno { return 0 })
}

// Fsync brings a file to stable storage.
func (f *FS) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return f.fsync("fsync", in) }

// FsyncDir brings a directory to stable storage.
func (f *FS) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return f.fsync("fsyncdir", in)
}

func (f *FS) fsync(op string, in *fuse.FsyncIn) fuse.Status {
	return f.serve(op, "", func() syscall.Errno {
		f.ids[in.NodeId].flush()
		return 0
	})
}

// OpenDir opens a directory.
func (f *FS) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.serve("opendir", "", func() syscall.Errno {
		f.lastFh++
		out.Fh = f.lastFh
		return 0
	})
}

// ReadDir lists a directory as it was when the listing began.
func (f *FS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.serve("readdir", "", func() syscall.Errno {
		if in.Offset == 0 {
			f.lists[in.Fh] = f.ids[in.NodeId].list()
		}
		for _, e := range f.lists[in.Fh][min(in.Offset, uint64(len(f.lists[in.Fh]))):] {
			if !out.AddDirEntry(e) {
				break
			}
		}
		return 0
	})
}

func (n *node) list() (entries []fuse.DirEntry) {
	for i, name := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[name]
		entries = append(entries, fuse.DirEntry{Name: name, Mode: child.mode, Ino: child.id, Off: uint64(i + 1)})
	}
	return entries
}

// SetLk answers for LocksRefused and LocksIgnored.
func (f *FS) SetLk(_ <-chan struct{}, _ *fuse.LkIn) fuse.Status {
	return f.serve("setlk", "", func() syscall.Errno {
		if f.o.Locks == LocksRefused {
			return syscall.ENOSYS
		}
		return 0
	})
}

// SetLkw is SetLk that may wait.
func (f *FS) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status { return f.SetLk(cancel, in) }
