//go:build !(linux || openbsd || darwin || freebsd || dragonfly || windows)

package lock

import (
	"sync"
	"time"
)

var processStart = sync.OnceValue(time.Now)

func sinceBoot() (time.Duration, error) { return time.Since(processStart()), nil }
