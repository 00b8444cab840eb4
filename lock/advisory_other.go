//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package lock

import "os"

func lockFile(_ *os.File, _, _, _ bool) error { return ErrUnsupported }
func unlockFile(*os.File, bool) error         { return ErrUnsupported }
func stillLocked(*os.File, bool) error        { return ErrUnsupported }
