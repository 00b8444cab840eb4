package caproot

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// accessList is the attribute that holds a POSIX access list (xattr(7)).
const accessList = "system.posix_acl_access"

// copyAccess also takes a list away that the file got from its directory's
// default (acl(5)): what it grants, the file to be replaced did not.
func (s linuxSystem) copyAccess(dir handle, name string, to handle) error {
	list, err := s.access(dir, name)
	switch err {
	case nil:
		return retry(func() error { return unix.Fsetxattr(int(to), accessList, list, 0) })
	case syscall.ENODATA:
		// Removing what is not there would begin a transaction of the file system.
		if _, err = unix.Fgetxattr(int(to), accessList, nil); err == nil {
			err = retry(func() error { return unix.Fremovexattr(int(to), accessList) })
		}
	}
	if err == syscall.ENODATA || err == syscall.EOPNOTSUPP {
		return nil
	}
	return err
}

// hasAccess: a list that says no more than a mode is not kept (acl(5)).
func (s linuxSystem) hasAccess(dir handle, name string) (bool, error) {
	_, err := s.access(dir, name)
	if err == syscall.ENODATA || err == syscall.EOPNOTSUPP {
		return false, nil
	}
	return err == nil, err
}

// access reads the list by name, which needs no right to open the file but
// /proc, as the kernel has no call relative to a directory before Linux 6.13.
func (s linuxSystem) access(dir handle, name string) ([]byte, error) {
	if name == "" {
		return readAttribute(func(buf []byte) (int, error) { return unix.Fgetxattr(int(dir), accessList, buf) })
	}
	list, err := readAttribute(func(buf []byte) (int, error) {
		return unix.Lgetxattr(procPath(dir)+"/"+name, accessList, buf)
	})
	if err == syscall.ENOENT || err == syscall.EACCES {
		return s.accessByHandle(dir, name)
	}
	return list, err
}

func (s linuxSystem) accessByHandle(dir handle, name string) ([]byte, error) {
	h, err := openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer s.close(h)
	return readAttribute(func(buf []byte) (int, error) { return unix.Fgetxattr(int(h), accessList, buf) })
}

// readAttribute reads an attribute of whatever size; the kernel's limit is 64 KiB.
func readAttribute(get func([]byte) (int, error)) ([]byte, error) {
	for size := 1 << 8; ; size *= 4 {
		buf := make([]byte, size)
		var n int
		err := retry(func() (err error) {
			n, err = get(buf)
			return err
		})
		if err != syscall.ERANGE || size > 1<<16 {
			return buf[:max(n, 0)], err
		}
	}
}
