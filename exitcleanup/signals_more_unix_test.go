//go:build unix

package exitcleanup

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

func wantDeath(t *testing.T, state *os.ProcessState, sig os.Signal) {
	t.Helper()
	status := state.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != sig {
		t.Errorf("ended by %v, want death by %v", state, sig)
	}
}

// Case 157.
func TestSignalRunsEntries(t *testing.T) {
	for _, scenario := range []string{
		"signal without main", "signal with main", "signal with deaf main", "signal and exit",
		"one of two users", "main stops handling",
	} {
		for _, sig := range fatal {
			t.Run(scenario+"/"+sig.String(), func(t *testing.T) {
				t.Parallel()
				needs(t, sig)
				c := start(t, scenario)
				c.expect("ready")
				c.wantLeft(mark)
				c.signal(sig)
				if scenario == "signal with main" {
					c.expect("ended by signal: " + sig.String())
				}
				wantDeath(t, c.end(), sig)
				c.wantGone(mark)
				c.wantSilence()
			})
		}
	}
}

// Case 160: without a user the signal has its default effect, and runs nothing.
func TestSignalThatNobodyHandles(t *testing.T) {
	for scenario, sig := range map[string]syscall.Signal{
		"thousand users":       syscall.SIGTERM,
		"signal not asked for": syscall.SIGTERM,
		"killed":               syscall.SIGKILL,
	} {
		t.Run(scenario, func(t *testing.T) {
			c := start(t, scenario)
			c.expect("ready")
			c.signal(sig)
			wantDeath(t, c.end(), sig)
			c.wantLeft(mark)
		})
	}
}

func TestPanicOutranksSignal(t *testing.T) {
	c := start(t, "signal and panic")
	c.expect("ready")
	c.signal(syscall.SIGTERM)
	c.wantCode(2)
	c.wantGone(mark)
	c.wantStderr("panic: boom", "panickingMain")
}

// Case 160: the program's own channel gets the signal, decides, and keeps its
// handler; the entries of its own end still run.
func TestOwnNotifyStays(t *testing.T) {
	c := start(t, "own notify")
	c.expect("ready")
	c.signal(syscall.SIGTERM)
	c.expect("terminated") // as it arrived
	c.expect("terminated") // as it was raised again
	c.expect("still here")
	c.signal(syscall.SIGTERM)
	c.expect("terminated")
	c.wantCode(5)
	c.wantGone(mark)
}

func TestOwnNotifyLetsMainDecide(t *testing.T) {
	c := start(t, "own notify, main")
	c.expect("ready")
	c.signal(syscall.SIGTERM)
	c.wantCode(5)
	c.wantGone(mark)
}

// Case 160.
func TestIgnoredSignalRunsNothing(t *testing.T) {
	start(t, "ignored").wantCode(8)

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// As nohup(1) does. Over exec an ignored signal stays so; Go respects that for
	// SIGHUP and SIGINT.
	shell := exec.Command("/bin/sh", "-c", `trap "" HUP; exec "$0"`, self)
	startCommand(t, "ignored by the parent", shell).wantCode(8)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, second := range fatal {
		t.Run(second.String(), func(t *testing.T) {
			t.Parallel()
			needs(t, second)
			c := start(t, "second signal")
			c.expect("ready")
			c.signal(syscall.SIGTERM)
			c.expect("cleaning")
			c.signal(second)
			wantDeath(t, c.end(), second)
			c.wantLeft(mark)
		})
	}
}

func TestSignalDuringExit(t *testing.T) {
	t.Run("first joins", func(t *testing.T) {
		c := start(t, "second signal during exit")
		c.expect("cleaning")
		c.signal(syscall.SIGTERM)
		c.expect("noted")
		c.tell()
		wantDeath(t, c.end(), syscall.SIGTERM)
		c.wantGone(mark)
	})
	t.Run("second ends at once", func(t *testing.T) {
		needs(t, syscall.SIGINT)
		c := start(t, "second signal during exit")
		c.expect("cleaning")
		c.signal(syscall.SIGTERM)
		c.expect("noted")
		c.signal(syscall.SIGINT)
		wantDeath(t, c.end(), syscall.SIGINT)
		c.wantLeft(mark)
	})
}

// Case 162.
func TestSignalRightAfterCreate(t *testing.T) {
	c := start(t, "signal after create")
	c.expect("ready")
	wantDeath(t, c.end(), syscall.SIGTERM)
	c.wantGone(mark)
	c.wantSilence()
}

// Nobody can install a handler between its removal and the signal that is to
// end the process.
func TestSignalEndsProcessThatInstallsHandlers(t *testing.T) {
	for range 20 {
		c := start(t, "busy users")
		c.expect("ready")
		c.signal(syscall.SIGTERM)
		wantDeath(t, c.end(), syscall.SIGTERM)
		c.wantGone(mark)
	}
}
