//go:build unix

package exitcleanup

import (
	"os"
	"syscall"
)

func defaultSignals() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
}
