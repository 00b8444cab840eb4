package main

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processFeatures tries what needs no directory to write in.
func processFeatures() []finding {
	return []finding{tried("openat2", tryOpenat2()), tryLandlock()}
}

func tryOpenat2() error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &how)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryLandlock asks for the ABI. EOPNOTSUPP is a kernel that has Landlock and was
// booted without it.
func tryLandlock() finding {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return tried("landlock", errno)
	}
	return finding{Feature: "landlock", Here: here, Value: "ABI " + strconv.Itoa(int(abi))}
}

// directoryFeatures tries in the directory, which is the caller's alone.
func directoryFeatures(dir *os.File) []finding {
	d := int(dir.Fd())
	found := []finding{tried("o-tmpfile", tryUnnamed(d)), tried("inotify", tryInotify(d))}
	file, err := unix.Openat(d, "kernel", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return found
	}
	defer unix.Close(file)
	return append(found,
		tried("linkat-empty-path", tryLinkat(d, file)),
		tried("rename-noreplace", tryNoReplace(d)),
		tried("rename-exchange", tryExchange(d)),
		tryHandle(file),
		tried("generation", tryGeneration(file)),
		tried("flock", tryFlock(d, file)),
	)
}

func tryUnnamed(dir int) error {
	fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryLinkat takes ENOENT, the answer to a process without the capability before
// Linux 6.10, for what it is.
func tryLinkat(dir, file int) error {
	err := unix.Linkat(file, "", dir, "linked", unix.AT_EMPTY_PATH)
	if err == unix.ENOENT {
		return unix.EPERM
	}
	return err
}

// tryNoReplace renames to a free name and to one that is taken: the kernel knows
// by itself that a name is taken, and asks the file system for the rest.
func tryNoReplace(dir int) error {
	if err := makeEmpty(dir, "from", "taken"); err != nil {
		return err
	}
	if err := unix.Renameat2(dir, "from", dir, "free", unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	err := unix.Renameat2(dir, "free", dir, "taken", unix.RENAME_NOREPLACE)
	switch err {
	case unix.EEXIST:
		return nil
	case nil:
		return errIgnored
	}
	return err
}

func tryExchange(dir int) error {
	if err := makeEmpty(dir, "one", "other"); err != nil {
		return err
	}
	return unix.Renameat2(dir, "one", dir, "other", unix.RENAME_EXCHANGE)
}

func makeEmpty(dir int, names ...string) error {
	for _, name := range names {
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
	}
	return nil
}

// handleFID is AT_HANDLE_FID of linux/fcntl.h: a handle that only identifies.
const handleFID = 0x200

func tryHandle(file int) finding {
	_, _, err := unix.NameToHandleAt(file, "", unix.AT_EMPTY_PATH)
	if err == nil {
		return finding{Feature: "file-handle", Here: here, Value: "opens again"}
	}
	if _, _, err = unix.NameToHandleAt(file, "", unix.AT_EMPTY_PATH|handleFID); err == nil {
		return finding{Feature: "file-handle", Here: here, Value: "identifies only"}
	}
	return tried("file-handle", err)
}

// getVersion is FS_IOC_GETVERSION, _IOR('v', 1, long) of linux/fs.h.
const getVersion = 2<<30 | unsafe.Sizeof(uintptr(0))<<16 | 'v'<<8 | 1

func tryGeneration(file int) error {
	_, err := unix.IoctlGetInt(file, uint(getVersion))
	return err
}

// tryFlock takes a lock and sees that another open of the same file is refused it.
func tryFlock(dir, file int) error {
	if err := unix.Flock(file, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	other, err := unix.Openat(dir, "kernel", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(other)
	err = unix.Flock(other, unix.LOCK_EX|unix.LOCK_NB)
	switch err {
	case unix.EWOULDBLOCK:
		return nil
	case nil:
		return errIgnored
	}
	return err
}

// tryInotify sees that a new file in the directory is told. Remote file systems
// take the watch, and tell only what this machine does.
func tryInotify(dir int) error {
	watcher, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(watcher)
	if _, err := unix.InotifyAddWatch(watcher, "/proc/self/fd/"+strconv.Itoa(dir), unix.IN_CREATE); err != nil {
		return err
	}
	if err := makeEmpty(dir, "watched"); err != nil {
		return err
	}
	// The event is queued before the call that makes it returns.
	if _, err := unix.Read(watcher, make([]byte, 4096)); err != nil {
		return err
	}
	return nil
}
