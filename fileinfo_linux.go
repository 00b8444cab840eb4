package caproot

import "syscall"

// sys is what FileInfo.Sys gives: the type that package os gives.
func (s *status) sys() any {
	st := &syscall.Stat_t{
		Dev: s.dev, Ino: s.ino, Mode: unixMode(s.mode) | unixType(s.mode), Uid: s.uid, Gid: s.gid, Rdev: s.rdev, Size: s.size,
		Blocks: s.blocks,
	}
	// The width of these two differs between architectures.
	setInt(&st.Nlink, s.nlink)
	setInt(&st.Blksize, s.blockSize)
	st.Atim, st.Mtim, st.Ctim = s.atime.timespec(), s.mtime.timespec(), s.ctime.timespec()
	return st
}

// vacantIsZero: some file systems give files the number 0.
const vacantIsZero = false
