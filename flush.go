package caproot

import (
	"errors"
	"slices"
	"syscall"
)

// errPartSync is a flush of which the system does not say that the drive took
// part in it.
var errPartSync = errors.New("flushed, but not the cache of the drive")

// fullSync flushes by full, which asks the drive too. Network and foreign file
// systems lack that: there it flushes by plain and returns errPartSync.
func fullSync(full, plain func() error) error {
	err := full()
	if err != syscall.ENOTSUP && err != syscall.EOPNOTSUPP && err != syscall.ENOTTY && err != syscall.EINVAL {
		return err
	}
	if err := plain(); err != nil {
		return err
	}
	return errPartSync
}

// told makes the part of a flush that was lost a code of the receipt.
func told(err error, lost *[]string) error {
	if err != errPartSync {
		return err
	}
	note(lost, "full-sync")
	return nil
}

// note adds a code once.
func note(lost *[]string, code string) {
	if !slices.Contains(*lost, code) {
		*lost = append(*lost, code)
	}
}
