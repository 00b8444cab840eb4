package boottime

import (
	"time"

	"golang.org/x/sys/windows"
)

func now() (time.Duration, error) { return windows.DurationSinceBoot(), nil }
