package exitcleanup

import (
	"os"
	"testing"

	"golang.org/x/sys/windows"
)

var systemScenarios = map[string]func(){}

// wantDeath wants the status that stands for every signal here.
func wantDeath(t *testing.T, state *os.ProcessState, _ os.Signal) {
	t.Helper()
	if got := uint32(state.ExitCode()); got != uint32(windows.STATUS_CONTROL_C_EXIT) {
		t.Errorf("exit status %#x, want %#x", got, uint32(windows.STATUS_CONTROL_C_EXIT))
	}
}
