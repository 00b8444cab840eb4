package caproot

import "golang.org/x/sys/unix"

func (linuxSystem) clone(to, from handle) error {
	return retry(func() error { return unix.IoctlFileClone(int(to), int(from)) })
}

// copyRange leaves the files' own offsets alone. Between file systems it works
// since Linux 5.3, and only between some.
func (linuxSystem) copyRange(to, from handle, offset int64, n int) (copied int, err error) {
	in, out := offset, offset
	err = retry(func() (err error) {
		copied, err = unix.CopyFileRange(int(from), &in, int(to), &out, n, 0)
		return err
	})
	return max(copied, 0), err
}
