package faultfs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Lookup finds a name.
func (f *FS) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return f.serve("lookup", name, func() syscall.Errno {
		n := f.ids[in.NodeId].children[name]
		if n == nil {
			return syscall.ENOENT
		}
		if f.o.Numbers == NumbersNewOnLookup {
			f.number(n)
		}
		f.entry(n, out)
		return 0
	})
}

// add gives a new node its first name.
func (f *FS) add(dir uint64, name string, n *node, out *fuse.EntryOut) syscall.Errno {
	d := f.ids[dir]
	if d.children[name] != nil {
		return syscall.EEXIST
	}
	d.enter(change{name: n})
	if n.isDir() {
		d.nlink++
	}
	f.number(n)
	f.entry(n, out)
	return 0
}

// Mkdir makes a directory.
func (f *FS) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.serve("mkdir", name, func() syscall.Errno {
		return f.add(in.NodeId, name, newNode(syscall.S_IFDIR|in.Mode&0o7777, in.Owner), out)
	})
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return f.serve("symlink", name, func() syscall.Errno {
		n := newNode(syscall.S_IFLNK|0o777, in.Owner)
		n.target = target
		return f.add(in.NodeId, name, n, out)
	})
}

// Readlink reads a symbolic link.
func (f *FS) Readlink(_ <-chan struct{}, in *fuse.InHeader) (target []byte, _ fuse.Status) {
	status := f.serve("readlink", "", func() syscall.Errno {
		target = []byte(f.ids[in.NodeId].target)
		return 0
	})
	return target, status
}

// Link gives a file one more name, and an unnamed one its first.
func (f *FS) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.serve("link", name, func() syscall.Errno {
		d, n := f.ids[in.NodeId], f.ids[in.Oldnodeid]
		switch {
		case f.o.NoLinks:
			return syscall.EPERM
		case d.children[name] != nil:
			return syscall.EEXIST
		}
		d.enter(change{name: n})
		n.nlink++
		f.entry(n, out)
		return 0
	})
}

// Unlink takes a name of a file away.
func (f *FS) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return f.serve("unlink", name, func() syscall.Errno { return f.drop(in.NodeId, name, false) })
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return f.serve("rmdir", name, func() syscall.Errno { return f.drop(in.NodeId, name, true) })
}

func (f *FS) drop(dir uint64, name string, isDir bool) syscall.Errno {
	d := f.ids[dir]
	n := d.children[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case isDir && !n.isDir():
		return syscall.ENOTDIR
	case !isDir && n.isDir():
		return syscall.EISDIR
	case len(n.children) > 0:
		return syscall.ENOTEMPTY
	}
	d.enter(change{name: nil})
	d.unlinked(n)
	return 0
}

func (n *node) unlinked(child *node) {
	child.nlink--
	if child.isDir() {
		child.nlink = 0
		n.nlink--
	}
}

// Rename moves a name, with or without flags.
func (f *FS) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	op := map[uint32]string{0: "rename", unix.RENAME_NOREPLACE: "rename-noreplace", unix.RENAME_EXCHANGE: "rename-exchange"}[in.Flags]
	return f.serve(op, from+" "+to, func() syscall.Errno {
		if f.o.NoRenameFlags && in.Flags != 0 || op == "" {
			return syscall.EINVAL
		}
		return f.rename(f.ids[in.NodeId], from, f.ids[in.Newdir], to, in.Flags)
	})
}

func (f *FS) rename(a *node, from string, b *node, to string, flags uint32) syscall.Errno {
	n, old := a.children[from], b.children[to]
	switch {
	case n == nil, flags == unix.RENAME_EXCHANGE && old == nil:
		return syscall.ENOENT
	case flags == unix.RENAME_NOREPLACE && old != nil:
		return syscall.EEXIST
	case n == old:
		return 0
	}
	var back *node // what the old name has after it
	if flags == unix.RENAME_EXCHANGE {
		back = old
	} else if old != nil {
		if errno := replaceable(n, old); errno != 0 {
			return errno
		}
		b.unlinked(old)
	}
	if a == b {
		a.enter(change{from: back, to: n})
	} else {
		b.enter(change{to: n})
		a.enter(change{from: back})
		a.recount()
		b.recount()
	}
	if f.o.Numbers == NumbersNewOnRename {
		f.number(n)
	}
	return 0
}

func replaceable(n, old *node) syscall.Errno {
	switch {
	case old.isDir() && !n.isDir():
		return syscall.EISDIR
	case !old.isDir() && n.isDir():
		return syscall.ENOTDIR
	case len(old.children) > 0:
		return syscall.ENOTEMPTY
	}
	return 0
}

// recount counts the links of a directory.
func (n *node) recount() {
	n.nlink = 2
	for _, child := range n.children {
		if child.isDir() {
			n.nlink++
		}
	}
}
