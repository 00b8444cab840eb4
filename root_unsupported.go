//go:build !linux && !darwin && !freebsd && !windows

package caproot

import (
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot/identity"
)

// handle stands for what this system's own file will define.
type handle uintptr

const noHandle = ^handle(0)

var errNotDir = ErrUnsupported

// unsupportedSystem answers ErrUnsupported to everything. No Root comes to be
// with it, because openPath and dupFile already refuse.
type unsupportedSystem struct{}

func hostSystem() system { return unsupportedSystem{} }

func kernelResolves() bool { return false }

func openPath(string) (handle, error)            { return noHandle, because(ErrUnsupported, platform) }
func dupFile(*os.File) (handle, error)           { return noHandle, because(ErrUnsupported, platform) }
func newFile(handle, string) *os.File            { return nil }
func setBlocking(handle, openHow) error          { return ErrUnsupported }
func exportDir(handle, string) (*os.File, error) { return nil, ErrUnsupported }

func stageMode(fs.FileMode) fs.FileMode    { return 0o600 }
func sameMode(have, want fs.FileMode) bool { return have == want }

func systemFlags(flag int) (openHow, int) { return 0, flag }

func maybeLink(error) bool    { return false }
func notALink(error) bool     { return false }
func maybeSpecial(error) bool { return false }
func notHere(error) bool      { return false }
func noFlag(error) bool       { return false }
func noDirSync(error) bool    { return false }
func notEmpty(error) bool     { return false }

func numbers(fs.FileInfo) (n [2]uint64, ok bool) { return n, false }

func (s *status) sys() any { return nil }

func (unsupportedSystem) openDir(handle, string) (handle, error) { return noHandle, ErrUnsupported }
func (unsupportedSystem) open(handle, string, openHow, fs.FileMode) (handle, error) {
	return noHandle, ErrUnsupported
}
func (unsupportedSystem) stat(handle, string, bool) (status, error) { return status{}, ErrUnsupported }
func (unsupportedSystem) readlink(handle, string) (string, error)   { return "", ErrUnsupported }
func (unsupportedSystem) magic(handle, string) bool                 { return false }
func (unsupportedSystem) mkdir(handle, string, fs.FileMode) error   { return ErrUnsupported }
func (unsupportedSystem) remove(handle, string, bool) error         { return ErrUnsupported }
func (unsupportedSystem) rename(handle, string, handle, string, renameHow) error {
	return ErrUnsupported
}
func (unsupportedSystem) link(handle, string, handle, string) error { return ErrUnsupported }
func (unsupportedSystem) symlink(string, handle, string) error      { return ErrUnsupported }
func (unsupportedSystem) unnamed(handle, fs.FileMode) (handle, error) {
	return noHandle, ErrUnsupported
}
func (unsupportedSystem) publish(handle, handle, string) error       { return ErrUnsupported }
func (unsupportedSystem) copyAccess(handle, string, handle) error    { return ErrUnsupported }
func (unsupportedSystem) hasAccess(handle, string) (bool, error)     { return false, ErrUnsupported }
func (unsupportedSystem) read(handle, []byte) (int, error)           { return 0, ErrUnsupported }
func (unsupportedSystem) readAt(handle, []byte, int64) (int, error)  { return 0, ErrUnsupported }
func (unsupportedSystem) write(handle, []byte) (int, error)          { return 0, ErrUnsupported }
func (unsupportedSystem) writeAt(handle, []byte, int64) (int, error) { return 0, ErrUnsupported }
func (unsupportedSystem) seek(handle, int64, int) (int64, error)     { return 0, ErrUnsupported }
func (unsupportedSystem) list(handle, []byte) ([]direntry, error)    { return nil, ErrUnsupported }
func (unsupportedSystem) truncate(handle, int64) error               { return ErrUnsupported }
func (unsupportedSystem) chmod(handle, fs.FileMode) error            { return ErrUnsupported }
func (unsupportedSystem) chown(handle, int, int) error               { return ErrUnsupported }
func (unsupportedSystem) chtimes(handle, time.Time, time.Time) error { return ErrUnsupported }
func (unsupportedSystem) sync(handle) error                          { return ErrUnsupported }
func (unsupportedSystem) lock(handle) error                          { return ErrUnsupported }
func (unsupportedSystem) identify(handle) (identity.ID, error)       { return identity.ID{}, ErrUnsupported }
func (unsupportedSystem) dup(handle) (handle, error)                 { return noHandle, ErrUnsupported }
func (unsupportedSystem) close(handle) error                         { return ErrUnsupported }
