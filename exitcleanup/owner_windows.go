package exitcleanup

import (
	"os"

	"golang.org/x/sys/windows"
)

// thisProcess takes the creation time as a FILETIME, in units of 100 ns.
func thisProcess() owner {
	o := owner{pid: os.Getpid()}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user); err == nil {
		o.start = uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime)
	}
	return o
}
