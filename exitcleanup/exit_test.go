package exitcleanup

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// scenarios run in a child on every system; systemScenarios on this one.
var scenarios = map[string]func(){
	"main returns": func() {
		registerMark()
		Main(func(context.Context) int { return 7 })
	},
	"main panics": func() {
		registerMark()
		Main(panickingMain)
	},
	"main panics while ending": func() {
		registerMark()
		Main(func(ctx context.Context) int {
			// Exit does not wait for Main: without this entry it may be done first.
			left := current.left
			Register("until Main has panicked", func(context.Context) error { <-left; return nil })
			go Exit(0)
			<-ctx.Done()
			return panickingMain(ctx)
		})
	},
	"main twice": func() {
		Main(func(context.Context) int {
			Main(func(context.Context) int { return 0 })
			return 0
		})
	},
	"main goexit": func() {
		registerMark()
		go func() {
			hear()
			Exit(4)
		}()
		Main(func(context.Context) int {
			say("leaving")
			runtime.Goexit()
			return 0
		})
	},
	"exit": func() {
		registerMark()
		defer say("deferred")
		Exit(3)
	},
	"exit cancels main": func() {
		Main(func(ctx context.Context) int {
			registerMark()
			Register("wait for main", func(context.Context) error { hear(); return nil })
			go Exit(3)
			<-ctx.Done()
			say(fmt.Sprint(context.Cause(ctx)))
			return 9
		})
	},
	"exit in entry": func() {
		registerMark()
		Register("exits", func(context.Context) error { return exitsDeep(100) })
		Exit(3)
	},
	"exit in entry of run": func() {
		registerMark()
		Register("exits", func(context.Context) error { return exitsDeep(100) })
		_ = Run(context.Background())
		select {}
	},
	"exit from many": exitFromMany,
	"entry panics": func() {
		registerMark()
		Register("broken", func(context.Context) error { return panickingEntry() })
		Register("newest", func(context.Context) error { say("newest"); return nil })
		Exit(0)
	},
	"deadline": func() {
		Configure(Options{CleanupTimeout: 100 * time.Millisecond})
		registerMark()
		Register("hangs", func(context.Context) error { select {} })
		Exit(5)
	},
	"report": func() {
		Configure(Options{Report: func(err error) {
			say(fmt.Sprint(errors.Is(err, os.ErrPermission), " ", err))
		}})
		Register("denied", func(context.Context) error { return os.ErrPermission })
		Exit(5)
	},
	"report hangs": func() {
		Configure(Options{Report: func(error) { select {} }})
		Register("denied", func(context.Context) error { return os.ErrPermission })
		Exit(5)
	},
	"child processes": childProcesses,
	"grandchild": func() {
		if current.registry.pending.Len() != 0 {
			say("entries were inherited")
		}
		Exit(0)
	},
	"ignored stays": ignoredStays,
	"os.Exit":       func() { registerMark(); os.Exit(6) },
	"log.Fatal":     func() { registerMark(); log.Fatal("bye") },
	"other panic": func() {
		registerMark()
		Main(func(context.Context) int {
			go panickingMain(context.Background())
			select {}
		})
	},
	"signal by hand": func() {
		registerMark()
		Main(func(ctx context.Context) int {
			current.arrived(os.Interrupt)
			<-ctx.Done()
			var cause *SignalError
			say(fmt.Sprint(errors.As(context.Cause(ctx), &cause) && cause.Signal == os.Interrupt))
			return 9
		})
	},
}

func panickingMain(context.Context) int { panic("boom") }
func panickingEntry() error             { panic("entry boom") }

// exitsDeep calls Exit with a stack deeper than one reading of it.
func exitsDeep(depth int) error {
	if depth == 0 {
		Exit(9)
	}
	return exitsDeep(depth - 1)
}

func exitFromMany() {
	var runs atomic.Int32
	const entries = 100
	Register("oldest", func(context.Context) error {
		if n := runs.Load(); n != entries {
			return fmt.Errorf("%d runs of %d entries", n, entries)
		}
		say("each once")
		return nil
	})
	for range entries {
		Register("", func(context.Context) error { runs.Add(1); runtime.Gosched(); return nil })
	}
	for range 50 {
		go Exit(3)
	}
	Exit(3)
}

// childProcesses starts this program again, with the environment and the open
// files of this one, and fails to start others.
func childProcesses() {
	registerMark()
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	again := exec.Command(self)
	again.Env = append(os.Environ(), scenarioVar+"=grandchild")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	if err := again.Run(); err != nil {
		say(fmt.Sprint("grandchild: ", err))
	}
	missing := filepath.Join("no", "such", "program")
	if exec.Command(missing).Run() == nil || syscall.Exec(missing, nil, nil) == nil {
		say("started a program that does not exist")
	}
	if _, err := os.Lstat(mark); err != nil {
		say("the mark is gone")
	}
	Exit(0)
}

func TestMainReturns(t *testing.T) {
	c := start(t, "main returns")
	c.wantCode(7)
	c.wantGone(mark)
	c.wantSilence()
}

func TestMainPanics(t *testing.T) {
	for _, scenario := range []string{"main panics", "main panics while ending"} {
		t.Run(scenario, func(t *testing.T) {
			c := start(t, scenario)
			c.wantCode(2)
			c.wantGone(mark)
			c.wantStderr("panic: boom", "panickingMain")
		})
	}
}

func TestMainTwicePanics(t *testing.T) {
	c := start(t, "main twice")
	c.wantCode(2)
	c.wantStderr("panic: exitcleanup: Main called twice")
}

func TestMainGoexitLeavesEntriesToExit(t *testing.T) {
	c := start(t, "main goexit")
	c.expect("leaving")
	c.wantLeft(mark)
	c.tell()
	c.wantCode(4)
	c.wantGone(mark)
}

func TestExit(t *testing.T) {
	c := start(t, "exit")
	c.wantCode(3)
	c.wantGone(mark)
	c.wantSilence()
}

func TestExitCancelsMainAndItsCodeStands(t *testing.T) {
	c := start(t, "exit cancels main")
	c.expect("context canceled")
	c.tell()
	c.wantCode(3)
	c.wantGone(mark)
}

func TestExitInsideEntry(t *testing.T) {
	for scenario, code := range map[string]int{"exit in entry": 3, "exit in entry of run": 9} {
		t.Run(scenario, func(t *testing.T) {
			c := start(t, scenario)
			c.wantCode(code)
			c.wantGone(mark)
		})
	}
}

func TestExitFromManyGoroutines(t *testing.T) {
	c := start(t, "exit from many")
	c.expect("each once")
	c.wantCode(3)
	c.wantSilence()
}

func TestPanicInEntryDoesNotStopOthers(t *testing.T) {
	c := start(t, "entry panics")
	c.expect("newest")
	c.wantCode(0)
	c.wantGone(mark)
	c.wantStderr(`exitcleanup: cleanup failed: "broken": panic: entry boom`, "panickingEntry")
}

func TestDeadlineAtExit(t *testing.T) {
	c := start(t, "deadline")
	c.wantCode(5)
	c.wantLeft(mark)
	c.wantStderr(`"mark": not run: context deadline exceeded`)
}

func TestReport(t *testing.T) {
	c := start(t, "report")
	c.expect(`true cleanup failed: "denied": permission denied`)
	c.wantCode(5)
	c.wantSilence()

	start(t, "report hangs").wantCode(5)
}

// Case 159.
func TestChildDoesNotRunEntriesOfParent(t *testing.T) {
	c := start(t, "child processes")
	c.wantCode(0)
	c.wantGone(mark)
	c.wantSilence()
}

// The documentation names these as running nothing.
func TestWhatRunsNothing(t *testing.T) {
	for scenario, code := range map[string]int{"os.Exit": 6, "log.Fatal": 1, "other panic": 2} {
		t.Run(scenario, func(t *testing.T) {
			c := start(t, scenario)
			c.wantCode(code)
			c.wantLeft(mark)
		})
	}
}

func TestSignalEndsMain(t *testing.T) {
	needs(t, os.Interrupt)
	c := start(t, "signal by hand")
	c.expect("true")
	wantDeath(t, c.end(), os.Interrupt)
	c.wantGone(mark)
	c.wantSilence()
}

func TestInEntry(t *testing.T) {
	if inEntry() {
		t.Error("a test is an entry")
	}
	var r registry
	var deep, beside bool
	r.register("", func(context.Context) error {
		deep = atDepth(200, inEntry)
		done := make(chan struct{})
		go func() { defer close(done); beside = inEntry() }()
		<-done
		return nil
	})
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !deep || beside {
		t.Errorf("in entry: %v, in a goroutine it started: %v", deep, beside)
	}
}

//go:noinline
func atDepth(n int, f func() bool) bool {
	if n == 0 {
		return f()
	}
	return atDepth(n-1, f) && strings.Compare("a", "b") < 0
}
