package caproot

import (
	"time"

	"golang.org/x/sys/unix"
)

// fineTick is that of the kernel's coarse clock, by which Linux stamps files
// (current_time() in fs/inode.c, clock_getres(2)), 1 to 10 ms; twice, as a busy
// machine ticks late.
func fineTick() time.Duration {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &tick); err != nil {
		return 20 * time.Millisecond // CONFIG_HZ of 100
	}
	return 2 * time.Duration(tick.Nano())
}
