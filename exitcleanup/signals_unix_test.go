//go:build unix

package exitcleanup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"
)

var systemScenarios = map[string]func(){
	"signal without main": func() {
		HandleSignals()
		registerMark()
		say("ready")
		select {}
	},
	"signal with main": func() {
		HandleSignals()
		registerMark()
		Main(func(ctx context.Context) int {
			say("ready")
			<-ctx.Done()
			say(context.Cause(ctx).Error())
			if _, err := os.Lstat(mark); err != nil {
				say("entries ran before main returned")
			}
			return 0
		})
	},
	"signal with deaf main": func() {
		Configure(Options{ReturnTimeout: 50 * time.Millisecond})
		HandleSignals()
		registerMark()
		Main(func(context.Context) int {
			say("ready")
			select {}
		})
	},
	"signal and exit": func() {
		Configure(Options{ReturnTimeout: time.Hour})
		HandleSignals()
		registerMark()
		Main(func(ctx context.Context) int {
			say("ready")
			<-ctx.Done()
			Exit(0)
			return 0
		})
	},
	"signal and panic": func() {
		HandleSignals()
		registerMark()
		Main(func(ctx context.Context) int {
			say("ready")
			<-ctx.Done()
			return panickingMain(ctx)
		})
	},
	"signal not asked for": func() {
		HandleSignals(syscall.SIGINT)
		registerMark()
		say("ready")
		select {}
	},
	"killed": func() {
		HandleSignals()
		registerMark()
		say("ready")
		select {}
	},
	"own notify": func() {
		own := make(chan os.Signal, 2)
		signal.Notify(own, syscall.SIGTERM)
		HandleSignals()
		registerMark()
		say("ready")
		for range 2 {
			say((<-own).String())
		}
		if _, err := os.Lstat(mark); err == nil {
			say("entries did not run before the signal was raised again")
		}
		registerMark()
		say("still here")
		own <- <-own
		say((<-own).String())
		Exit(5)
	},
	"own notify, main": func() {
		own := make(chan os.Signal, 2)
		signal.Notify(own, syscall.SIGTERM)
		HandleSignals()
		registerMark()
		Main(func(ctx context.Context) int {
			say("ready")
			<-ctx.Done()
			return 5
		})
	},
	"ignored": func() {
		signal.Ignore(syscall.SIGHUP)
		ignoring()
	},
	"ignored by the parent": ignoring,
	"second signal": func() {
		Configure(Options{CleanupTimeout: time.Hour})
		HandleSignals()
		registerMark()
		Register("hangs", func(context.Context) error {
			time.Sleep(sameRequest)
			say("cleaning")
			select {}
		})
		say("ready")
		select {}
	},
	"second signal during exit": func() {
		Configure(Options{CleanupTimeout: time.Hour})
		HandleSignals()
		registerMark()
		Register("waits", func(context.Context) error {
			say("cleaning")
			untilNoted()
			time.Sleep(sameRequest)
			say("noted")
			hear()
			return nil
		})
		Exit(0)
	},
	"thousand users": func() {
		HandleSignals()()
		before := runtime.NumGoroutine()
		registerMark()
		for range 1000 {
			HandleSignals()()
		}
		if n := settled(before); n > before {
			say(fmt.Sprint(n-before, " goroutines left"))
		}
		say("ready")
		select {}
	},
	"one of two users": func() {
		stop := HandleSignals()
		HandleSignals()
		stop()
		registerMark()
		say("ready")
		select {}
	},
	// Case 162: the signal comes between the making and whatever follows it.
	"signal after create": func() {
		HandleSignals()
		Register(mark, func(context.Context) error { return os.Remove(mark) })
		say("ready")
		fd, err := syscall.Open(mark, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		_ = syscall.Close(fd)
		select {}
	},
	// Each call installs the handlers again if it finds none.
	"busy users": func() {
		registerMark()
		for range 4 {
			go func() {
				for {
					HandleSignals()
				}
			}()
		}
		HandleSignals()
		say("ready")
		select {}
	},
	"main stops handling": func() {
		registerMark()
		Main(func(ctx context.Context) int {
			defer HandleSignals()()
			say("ready")
			<-ctx.Done()
			return 0
		})
	},
}

// untilNoted returns when a signal has arrived.
func untilNoted() {
	for {
		current.mu.Lock()
		noted := current.signal != nil
		current.mu.Unlock()
		if noted {
			return
		}
		runtime.Gosched()
	}
}

// ignoring says what happens to a SIGHUP that should do nothing.
func ignoring() {
	HandleSignals()
	registerMark()
	_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
	time.Sleep(2 * sameRequest)
	if _, err := os.Lstat(mark); err != nil {
		say("an ignored signal ran the entries")
	}
	Exit(8)
}

var fatal = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// needs skips a test whose child would not react.
func needs(t *testing.T, sig os.Signal) {
	t.Helper()
	if signal.Ignored(sig) {
		t.Skipf("the tests were started with %v ignored, and children inherit that", sig)
	}
}

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
