package faultfs

import (
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Locks says what flock(2) does.
type Locks uint8

const (
	LocksByKernel Locks = iota // between the processes of this kernel
	LocksRefused               // ENOSYS
	LocksIgnored               // granted to everyone
)

// Numbers says how file numbers behave. The kernel shows the number by which it
// knows an object, so another number is another object to it.
type Numbers uint8

const (
	NumbersStable      Numbers = iota
	NumbersNewOnRename         // as some network servers that number paths
	NumbersNewOnLookup         // as rclone
)

// Options are what the file system lacks. The zero value lacks nothing.
type Options struct {
	NoUnnamed     bool // O_TMPFILE: EOPNOTSUPP
	NoLinks       bool // link: EPERM
	NoRenameFlags bool // no-replace and exchange: EINVAL
	NoGenerations bool // file handles say no more than file numbers
	Locks         Locks
	Numbers       Numbers
	ReadAtMost    int // bytes of a read, 0 for no bound
	WriteAtMost   int // bytes of a write, 0 for no bound
}

// Call is a request of the kernel. Op is the name of the request in lower case.
type Call struct {
	Op   string
	Name string // the component it is about, "" for an open object
	N    int    // how many requests with this Op there were since the rule is in force, from 1
}

func (c Call) String() string { return c.Op + " " + c.Name }

// Answer is what becomes of a request: carried out, refused with Errno, or, as by
// a server whose reply was lost, carried out and then answered with Errno.
type Answer struct {
	Errno syscall.Errno
	After bool
}

// Rule decides on each request. It may block.
type Rule func(Call) Answer

// FS is the file system. It is safe for concurrent use.
type FS struct {
	fuse.RawFileSystem // answers ENOSYS to everything else
	o                  Options

	mu     sync.Mutex
	ids    map[uint64]*node // by the kernel's numbers; none is forgotten
	lastID uint64
	root   *node
	lists  map[uint64][]fuse.DirEntry // of open directories
	lastFh uint64
	rule   Rule
	counts map[string]int
	log    []string
}

// New returns an empty file system.
func New(o Options) *FS {
	f := &FS{RawFileSystem: fuse.NewDefaultRawFileSystem(), o: o, ids: map[uint64]*node{}, lists: map[uint64][]fuse.DirEntry{}, counts: map[string]int{}}
	f.root = newNode(syscall.S_IFDIR|0o755, fuse.Owner{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
	f.number(f.root)
	return f
}

// String is the name that the table of mounts has.
func (f *FS) String() string { return "faultfs" }

// Mount serves the file system at an empty directory until the returned function
// is called, which takes the mount away at once, with what is open in it.
func (f *FS) Mount(point string) (unmount func(), err error) {
	s, err := fuse.NewServer(f, point, &fuse.MountOptions{
		DirectMountStrict:  true,
		DisableXAttrs:      true,
		DisableSplice:      true,
		DisableReadDirPlus: true,
		Logger:             log.New(io.Discard, "", 0),
		EnableLocks:        f.o.Locks != LocksByKernel,
	})
	if err != nil {
		return nil, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve()
	}()
	if err := s.WaitMount(); err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	// By force, because who has a file open here and ends would wait for a server
	// that is ending too.
	return func() {
		syscall.Unmount(point, syscall.MNT_FORCE|syscall.MNT_DETACH)
		select { // the server closes its descriptor, unless a rule holds a request
		case <-served:
		case <-time.After(5 * time.Second):
		}
	}, nil
}

// Set puts a rule in force, nil for none, and counts and logs from anew.
func (f *FS) Set(rule Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule, f.log = rule, nil
	clear(f.counts)
}

// Log has the requests since Set, in order, each as "op name".
func (f *FS) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.log...)
}

// serve counts a request, asks the rule, and carries it out.
func (f *FS) serve(op, name string, do func() syscall.Errno) fuse.Status {
	f.mu.Lock()
	f.counts[op]++
	c := Call{op, name, f.counts[op]}
	f.log = append(f.log, c.String())
	rule := f.rule
	f.mu.Unlock()
	var a Answer
	if rule != nil {
		a = rule(c)
	}
	if a.Errno != 0 && !a.After {
		return fuse.Status(a.Errno)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	errno := do()
	if errno == 0 {
		errno = a.Errno
	}
	return fuse.Status(errno)
}

// number gives a node a new number of the kernel's.
func (f *FS) number(n *node) uint64 {
	f.lastID++
	f.ids[f.lastID] = n
	n.id = f.lastID
	return n.id
}

// entry describes a node that was looked up or made. The kernel keeps nothing of
// it, so that each use is a request.
func (f *FS) entry(n *node, out *fuse.EntryOut) {
	out.NodeId = n.id
	if !f.o.NoGenerations {
		out.Generation = n.generation
	}
	f.attr(n, n.id, &out.Attr)
}

func (f *FS) attr(n *node, id uint64, out *fuse.Attr) {
	*out = fuse.Attr{Ino: id, Mode: n.mode, Nlink: n.nlink, Owner: n.owner, Blksize: 4096, Size: uint64(len(n.data))}
	if n.mode&syscall.S_IFMT == syscall.S_IFLNK {
		out.Size = uint64(len(n.target))
	}
	out.Blocks = (out.Size + 511) / 512
	out.SetTimes(&n.atime, &n.mtime, &n.ctime)
}

// StatFs lies: there is room for nothing, and no name may be longer than 3 bytes.
func (f *FS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	return f.serve("statfs", "", func() syscall.Errno {
		*out = fuse.StatfsOut{Bsize: 4096, Frsize: 4096, NameLen: 3}
		return 0
	})
}

// GetAttr tells the number that the kernel asked by.
func (f *FS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.serve("getattr", "", func() syscall.Errno {
		f.attr(f.ids[in.NodeId], in.NodeId, &out.Attr)
		return 0
	})
}

// SetAttr changes mode, owner, size and times.
func (f *FS) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.serve("setattr", "", func() syscall.Errno {
		n := f.ids[in.NodeId]
		if in.Valid&fuse.FATTR_MODE != 0 {
			n.mode = n.mode&syscall.S_IFMT | in.Mode&^syscall.S_IFMT
		}
		if in.Valid&fuse.FATTR_UID != 0 {
			n.owner.Uid = in.Uid
		}
		if in.Valid&fuse.FATTR_GID != 0 {
			n.owner.Gid = in.Gid
		}
		if in.Valid&fuse.FATTR_SIZE != 0 {
			n.resize(int(in.Size))
		}
		if m, ok := in.GetMTime(); ok {
			n.mtime = m
		}
		if a, ok := in.GetATime(); ok {
			n.atime = a
		}
		n.ctime = time.Now()
		f.attr(n, in.NodeId, &out.Attr)
		return 0
	})
}
