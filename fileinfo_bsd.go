//go:build darwin || freebsd

package caproot

import "syscall"

// sys is what FileInfo.Sys gives: the type that package os gives.
func (s *status) sys() any {
	st := &syscall.Stat_t{Ino: s.ino, Mode: uint16(unixMode(s.mode) | unixType(s.mode)), Uid: s.uid, Gid: s.gid, Size: s.size, Blocks: s.blocks}
	// The width of these differs between the systems.
	setInt(&st.Dev, s.dev)
	setInt(&st.Rdev, s.rdev)
	setInt(&st.Nlink, s.nlink)
	setInt(&st.Blksize, s.blockSize)
	st.Atimespec, st.Mtimespec, st.Ctimespec = s.atime.timespec(), s.mtime.timespec(), s.ctime.timespec()
	st.Birthtimespec = s.birth.timespec()
	return st
}
