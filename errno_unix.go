//go:build linux || darwin || freebsd

package caproot

import "syscall"

// maybeLink is true for the answers that an open which follows no link gives
// when there is one: ENOTDIR with O_DIRECTORY, ELOOP without, EMLINK on FreeBSD.
func maybeLink(err error) bool {
	return err == syscall.ENOTDIR || err == syscall.ELOOP || err == syscall.EMLINK
}

// notALink is readlink's answer for everything else.
func notALink(err error) bool { return err == syscall.EINVAL }

// maybeSpecial is true for the answers that opening a FIFO without a peer, a
// socket or a device without a driver gives.
func maybeSpecial(err error) bool {
	return err == syscall.ENXIO || err == syscall.ENODEV || err == syscall.EOPNOTSUPP
}

// notHere is true when the file system or kernel lacks the call itself, so that
// another way may be tried. It is decided anew for each call: one mount says
// nothing of the next.
func notHere(err error) bool {
	return err == syscall.ENOSYS || err == syscall.EOPNOTSUPP || err == syscall.ENOTSUP || err == syscall.EINVAL ||
		err == syscall.EISDIR || err == syscall.ENOENT
}

// noFlag is true when a flag of rename is not supported here.
func noFlag(err error) bool {
	return err == syscall.ENOSYS || err == syscall.EINVAL || err == syscall.EOPNOTSUPP || err == syscall.ENOTSUP
}

// noLink is true when a second name of a file cannot be had here: EPERM is the
// answer of file systems without hard links (link(2)).
func noLink(err error) bool { return err == syscall.EPERM || noFlag(err) }

// noDirSync is true when a directory cannot be flushed here: no such operation,
// or no permission to list it. EIO and the like are failures.
func noDirSync(err error) bool {
	return err == syscall.EINVAL || err == syscall.EOPNOTSUPP || err == syscall.ENOTSUP || err == syscall.ENOTTY ||
		err == syscall.EACCES || err == syscall.EPERM
}

// notEmpty is rmdir's answer for a directory with something in it.
func notEmpty(err error) bool { return err == syscall.ENOTEMPTY || err == syscall.EEXIST }
