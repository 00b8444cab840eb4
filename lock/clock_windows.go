package lock

import (
	"time"

	"golang.org/x/sys/windows"
)

func sinceBoot() (time.Duration, error) { return windows.DurationSinceBoot(), nil }
