//go:build !linux

package caproot

import "time"

// fineTick is more than that of Windows, which is up to 15.6 ms.
func fineTick() time.Duration { return 20 * time.Millisecond }
