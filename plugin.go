package caproot

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/caproot/caproot/identity"
)

// Plugin is what a host hands to code that it does not trust with a Root: the
// verbs of a grant by which no descriptor, no os.Root, no Root and no path of
// the host can be had. What it gives are Files, receipts and values.
//
// It limits what honest use of the interface can do. It is no sandbox: code of
// the same process can import os and unsafe.
type Plugin interface {
	Entries(ctx context.Context, name string) iter.Seq2[Entry, error]
	Glob(pattern string) ([]string, error)
	Walk(ctx context.Context, name string, o WalkOptions) iter.Seq2[Entry, error]
	WalkDir(name string, fn fs.WalkDirFunc) error

	AppendFile(dst []byte, name string) ([]byte, error)
	Check(want identity.Receipt) error
	Exists(name string) (bool, error)
	FS() fs.FS
	Lstat(name string) (fs.FileInfo, error)
	OpenView(name string, flag int, perm fs.FileMode) (*File, error)
	Policy() Policy
	ReadDir(name string) ([]fs.DirEntry, error)
	ReadFile(name string) ([]byte, error)
	Readlink(name string) (string, error)
	Receipt(name string, with ...Evidence) (identity.Receipt, error)
	Stat(name string) (fs.FileInfo, error)

	Batch(o BatchOptions) *Batch
	CopyFS(dir string, fsys fs.FS) error
	RemoveTree(ctx context.Context, name string, o TreeLimits) (TreeReport, error)

	Append(name string, data []byte, o AppendOptions) (identity.Receipt, error)
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error
	Lchown(name string, uid, gid int) error
	Link(oldName, newName string) error
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	MkdirTemp(dir, pattern string) (string, error)
	Move(from, to string, o MoveOptions) (identity.Receipt, error)
	Put(name string, data []byte, o PutOptions) (identity.Receipt, error)
	PutFrom(ctx context.Context, name string, src io.Reader, o PutOptions) (identity.Receipt, error)
	Remove(name string) error
	RemoveAll(name string) error
	RemoveIf(name string, want identity.Receipt) error
	Rename(oldName, newName string) error
	Sweep(name string) (removed int, err error)
	Symlink(target, newName string) error
	Truncate(name string, size int64) error
	WriteFile(name string, data []byte, perm fs.FileMode) error

	// Stage is Root.Stage without the descriptor of the stage.
	Stage(name string, o PutOptions) (PluginStage, error)
	// Sub is Root.Grant with a view for its result.
	Sub(dir string, g Grant) (Plugin, error)
	// Close closes the Root that the view is of.
	Close() error
}

// PluginStage is what a Plugin sees of a Staged.
type PluginStage interface {
	io.WriteCloser
	Commit() (identity.Receipt, error)
	Abort() error
}

// Plugin returns the view of r for code that is to have nothing else. Two views
// of one Root share it.
func (r *Root) Plugin() Plugin { return &plugin{r} }

// plugin shows the methods of a Root one by one: if it were the Root, or had it
// embedded, the others could be had by a type assertion.
type plugin struct{ r *Root }

func (p *plugin) AppendFile(dst []byte, name string) ([]byte, error) {
	return p.r.AppendFile(dst, name)
}
func (p *plugin) Check(want identity.Receipt) error             { return p.r.Check(want) }
func (p *plugin) Exists(name string) (bool, error)              { return p.r.Exists(name) }
func (p *plugin) FS() fs.FS                                     { return p.r.FS() }
func (p *plugin) Lstat(name string) (fs.FileInfo, error)        { return p.r.Lstat(name) }
func (p *plugin) Policy() Policy                                { return p.r.Policy() }
func (p *plugin) ReadDir(name string) ([]fs.DirEntry, error)    { return p.r.ReadDir(name) }
func (p *plugin) ReadFile(name string) ([]byte, error)          { return p.r.ReadFile(name) }
func (p *plugin) Readlink(name string) (string, error)          { return p.r.Readlink(name) }
func (p *plugin) Stat(name string) (fs.FileInfo, error)         { return p.r.Stat(name) }
func (p *plugin) Chmod(name string, mode fs.FileMode) error     { return p.r.Chmod(name, mode) }
func (p *plugin) Chown(name string, uid, gid int) error         { return p.r.Chown(name, uid, gid) }
func (p *plugin) Lchown(name string, uid, gid int) error        { return p.r.Lchown(name, uid, gid) }
func (p *plugin) Link(oldName, newName string) error            { return p.r.Link(oldName, newName) }
func (p *plugin) Mkdir(name string, perm fs.FileMode) error     { return p.r.Mkdir(name, perm) }
func (p *plugin) Remove(name string) error                      { return p.r.Remove(name) }
func (p *plugin) RemoveAll(name string) error                   { return p.r.RemoveAll(name) }
func (p *plugin) Rename(oldName, newName string) error          { return p.r.Rename(oldName, newName) }
func (p *plugin) Sweep(name string) (removed int, err error)    { return p.r.Sweep(name) }
func (p *plugin) Symlink(target, newName string) error          { return p.r.Symlink(target, newName) }
func (p *plugin) Truncate(name string, size int64) error        { return p.r.Truncate(name, size) }
func (p *plugin) MkdirTemp(dir, pattern string) (string, error) { return p.r.MkdirTemp(dir, pattern) }
func (p *plugin) Close() error                                  { return p.r.Close() }

func (p *plugin) Entries(ctx context.Context, name string) iter.Seq2[Entry, error] {
	return p.r.Entries(ctx, name)
}

func (p *plugin) Glob(pattern string) ([]string, error)        { return p.r.Glob(pattern) }
func (p *plugin) WalkDir(name string, fn fs.WalkDirFunc) error { return p.r.WalkDir(name, fn) }
func (p *plugin) Batch(o BatchOptions) *Batch                  { return p.r.Batch(o) }

func (p *plugin) CopyFS(dir string, fsys fs.FS) error { return p.r.CopyFS(dir, fsys) }

func (p *plugin) Walk(ctx context.Context, name string, o WalkOptions) iter.Seq2[Entry, error] {
	return p.r.Walk(ctx, name, o)
}

func (p *plugin) RemoveTree(ctx context.Context, name string, o TreeLimits) (TreeReport, error) {
	return p.r.RemoveTree(ctx, name, o)
}

func (p *plugin) OpenView(name string, flag int, perm fs.FileMode) (*File, error) {
	return p.r.OpenView(name, flag, perm)
}

func (p *plugin) Receipt(name string, with ...Evidence) (identity.Receipt, error) {
	return p.r.Receipt(name, with...)
}

func (p *plugin) Append(name string, data []byte, o AppendOptions) (identity.Receipt, error) {
	return p.r.Append(name, data, o)
}

func (p *plugin) Chtimes(name string, atime, mtime time.Time) error {
	return p.r.Chtimes(name, atime, mtime)
}

func (p *plugin) MkdirAll(name string, perm fs.FileMode) error { return p.r.MkdirAll(name, perm) }

func (p *plugin) Move(from, to string, o MoveOptions) (identity.Receipt, error) {
	return p.r.Move(from, to, o)
}

func (p *plugin) Put(name string, data []byte, o PutOptions) (identity.Receipt, error) {
	return p.r.Put(name, data, o)
}

func (p *plugin) PutFrom(ctx context.Context, name string, src io.Reader, o PutOptions) (identity.Receipt, error) {
	return p.r.PutFrom(ctx, name, src, o)
}

func (p *plugin) RemoveIf(name string, want identity.Receipt) error {
	return p.r.RemoveIf(name, want)
}

func (p *plugin) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return p.r.WriteFile(name, data, perm)
}

func (p *plugin) Stage(name string, o PutOptions) (PluginStage, error) {
	s, err := p.r.Stage(name, o)
	if err != nil {
		return nil, err
	}
	return &pluginStage{s}, nil
}

func (p *plugin) Sub(dir string, g Grant) (Plugin, error) {
	sub, err := p.r.Grant(dir, g)
	if err != nil {
		return nil, err
	}
	return sub.Plugin(), nil
}

// pluginStage hides Staged.File.
type pluginStage struct{ s *Staged }

func (p *pluginStage) Write(data []byte) (int, error)    { return p.s.Write(data) }
func (p *pluginStage) Commit() (identity.Receipt, error) { return p.s.Commit() }
func (p *pluginStage) Abort() error                      { return p.s.Abort() }
func (p *pluginStage) Close() error                      { return p.s.Close() }
