package exitcleanup

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

func defaultSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// raise exits with what the system's own handler of console events gives to
// ExitProcess. GenerateConsoleCtrlEvent is no way to raise one: it reaches
// every process of the console.
func raise(os.Signal) {
	status := uint32(windows.STATUS_CONTROL_C_EXIT)
	os.Exit(int(int32(status)))
}
