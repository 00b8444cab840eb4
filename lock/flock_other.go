//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package lock

import (
	"os"
	"time"
)

const openNonBlocking = 0

const freesName = false

func flock(*os.File, bool) error      { return ErrUnsupported }
func relock(*os.File) error           { return ErrUnsupported }
func funlock(*os.File) error          { return ErrUnsupported }
func look(*os.File) (object, error)   { return object{}, ErrUnsupported }
func touch(*os.File, time.Time) error { return ErrUnsupported }

func tornDown(error) bool { return false }

func (o *object) foreign() bool { return false }
