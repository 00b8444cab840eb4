package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/pathsafe"
)

// Root is an open directory with rights. No method reads, changes or reveals
// anything outside of it, whatever the spelling of a name and whatever another
// process renames meanwhile. All methods are safe for concurrent use.
//
// A Root is bound to the directory it opened, not to its path, unless its
// policy says BindPath. It holds one descriptor.
//
// Not promised: a directory that someone with rights there moves out of the
// root stays reachable through handles opened before.
type Root struct {
	sys     system
	beneath beneathOpener // nil: resolve by walking
	dir     handle
	name    string
	policy  Policy
	bound   *binding // nil when not opened by a path
	dev     uint64
	ino     uint64
	mount   uint64
	life    lifetime
	tenure  *tenure
	deny    *denied   // nil when nothing is denied
	carries bool      // names of stages may be made: a tree is moved here
	fills   bool      // a copy is made here, whose directories may be there
	near    *nearDirs // of a copy that is made here
	below   string    // canonical path below the grant's directory
	cleanup runtime.Cleanup
	id      atomic.Pointer[identity.ID] // of the directory, once known
}

// Open opens the directory dir as a Root with the rights of p. The path dir is
// the caller's own: links in it are followed, and it may be absolute.
//
// It returns an error that matches ErrFormat for a policy with a value that is none
// of the constants, an unknown bit or a negative limit, as FromFile, FromOSRoot and
// Grant do, and ErrUnsupported when p.Containment is KernelAtomic and the system
// has no call that resolves a whole path inside a directory.
func Open(dir string, p Policy) (*Root, error) {
	if err := p.valid(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	sys := hostSystem()
	h, err := openPath(dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	r, err := newRoot(sys, h, dir, p, &tenure{})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	if p.Bind == BindPath {
		// A later change of the working directory must not change the answer.
		path, err := filepath.Abs(dir)
		if err != nil {
			r.Close()
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
		r.bound = &binding{path: path, dev: r.dev, ino: r.ino}
	}
	return r, nil
}

// FromFile makes a Root of a directory that is already open, for instance one
// that a parent process passed on. The file is the authority and p may be any
// policy: who has an *os.File of a directory is confined by no Root, and so Open
// gives none without the right Share. The file is duplicated and stays the
// caller's. It returns ErrUnsupported for a policy with BindPath: a descriptor
// has no path.
func FromFile(dir *os.File, p Policy) (*Root, error) {
	if noFile(dir) {
		return nil, &fs.PathError{Op: "open", Err: errNoHandle}
	}
	if err := p.valid(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	if p.Bind == BindPath {
		return nil, &fs.PathError{Op: "open", Path: dir.Name(), Err: because(ErrUnsupported, "a descriptor has no path to bind to")}
	}
	sys := hostSystem()
	h, err := dupFile(dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	r, err := newRoot(sys, h, dir.Name(), p, &tenure{})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	return r, nil
}

// FromOSRoot makes a Root of the directory of r, which stays the caller's. It
// needs the right to list that directory.
func FromOSRoot(r *os.Root, p Policy) (*Root, error) {
	if r == nil || *r == (os.Root{}) {
		return nil, &fs.PathError{Op: "open", Err: errNoRoot}
	}
	dir, err := r.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return FromFile(dir, p)
}

// noFile tells a file that was never opened, of which each method of a zero one
// panics.
func noFile(f *os.File) bool { return f == nil || *f == (os.File{}) }

// newRoot takes h over, also when it fails.
func newRoot(sys system, h handle, name string, p Policy, t *tenure) (*Root, error) {
	st, err := sys.stat(h, "", true)
	if err == nil && !st.isDir() {
		err = errNotDir
	}
	r := &Root{sys: sys, dir: h, name: name, policy: p, tenure: t, dev: st.dev, ino: st.ino, mount: st.mount}
	if b, ok := sys.(beneathOpener); ok && kernelResolves() {
		r.beneath = b
	}
	if err == nil && r.beneath == nil && p.Containment == KernelAtomic {
		err = because(ErrUnsupported, "the kernel cannot resolve whole paths")
	}
	if err != nil {
		sys.close(h)
		return nil, err
	}
	r.cleanup = runtime.AddCleanup(r, func(h handle) { sys.close(h) }, h)
	return r, nil
}

// self identifies the root's directory, which its open handle keeps the same.
func (r *Root) self() (identity.ID, error) {
	if id := r.id.Load(); id != nil {
		return *id, nil
	}
	id, err := r.sys.identify(r.dir)
	if err == nil {
		r.id.Store(&id)
	}
	return id, err
}

// opened tells a Root that this package made. The methods of any other, the nil
// pointer among them, refuse with an error that matches fs.ErrInvalid.
func (r *Root) opened() bool { return r != nil && r.tenure != nil }

// Name returns the name the root was opened by, for display.
func (r *Root) Name() string {
	if !r.opened() {
		return ""
	}
	return r.name
}

// Policy returns the root's policy.
func (r *Root) Policy() Policy {
	if !r.opened() {
		return Policy{}
	}
	return r.policy
}

// Close gives the directory back. It waits for calls in flight: called from a
// reader or callback that one of them uses, or in the body of a loop over Walk or
// Entries of this Root, it waits for ever. Later calls return fs.ErrClosed. Roots
// derived from this one stay open.
func (r *Root) Close() error {
	if !r.opened() {
		return &fs.PathError{Op: "close", Err: errNoRoot}
	}
	if !r.life.close() {
		return nil
	}
	r.cleanup.Stop()
	return r.sys.close(r.dir)
}

var (
	verbFile     = verb{name: "file", needs: Share}
	verbOpenRoot = verb{name: "openroot", needs: List, traced: true}
	verbReopen   = verb{name: "openroot", traced: true}
)

// File returns a descriptor of the root's directory: authority for everything
// in it and above, meant for passing to another process. It needs the right
// Share, and a grant without Deny, Before and Budget: a descriptor goes around them.
func (r *Root) File() (*os.File, error) {
	var c call
	if err := c.begin(r, &verbFile, "."); err != nil {
		return nil, err
	}
	defer c.end()
	if err := c.admitDescriptor(); err != nil {
		return nil, c.fail(err)
	}
	h, err := r.sys.dup(r.dir)
	if err != nil {
		return nil, c.fail(err)
	}
	return c.handOut(newFile(h, r.name), nil)
}

// OpenRoot opens a directory inside as a Root of its own with the same policy. It
// needs the right List, except for ".".
func (r *Root) OpenRoot(name string) (*Root, error) {
	var c call
	if err := c.begin(r, verbOf(name, &verbOpenRoot, &verbReopen), name); err != nil {
		return nil, err
	}
	defer c.end()
	sub, err := c.openRoot()
	return sub, c.fail(err)
}

// verbOf is the verb of a name, or of the root itself, about which nothing can be
// found out.
func verbOf(name string, other, self *verb) *verb {
	if name == "." {
		return self
	}
	return other
}

func (c *call) openRoot() (*Root, error) {
	var h handle
	var err error
	if c.g != nil {
		h, err = c.openPlaced(pathOnly|directoryOnly, 0) // where the grant goes on must be known
	} else {
		h, err = c.open(pathOnly|directoryOnly, 0)
	}
	if err != nil {
		return nil, err
	}
	return c.subRoot(h, c.name, c.r.policy, c.r.tenure)
}

func joinDisplay(dir, name string) string {
	if dir == "" || name == "" {
		return dir + name
	}
	return dir + "/" + pathsafe.Canonical(name)
}

// binding remembers the path a root was opened by.
type binding struct {
	path     string
	dev, ino uint64
}

// check returns ErrChanged unless the path still names the directory. The
// root's open handle keeps the inode number from being used again.
func (b *binding) check(sys system) error {
	h, err := openPath(b.path)
	if err != nil {
		return because(ErrChanged, "the root's path does not open")
	}
	defer sys.close(h)
	st, err := sys.stat(h, "", false)
	if err != nil || st.dev != b.dev || st.ino != b.ino {
		return because(ErrChanged, "the root's path names another directory")
	}
	return nil
}
