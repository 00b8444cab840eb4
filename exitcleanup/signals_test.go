package exitcleanup

import (
	"os"
	"os/signal"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func (h *handlers) installed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.of)
}

// settled waits until at most n goroutines are left, and returns their number.
func settled(n int) int {
	for range 1000 {
		if runtime.NumGoroutine() <= n {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return runtime.NumGoroutine()
}

// Case 160.
func TestThousandUsersOneHandler(t *testing.T) {
	needs(t, os.Interrupt)
	HandleSignals(os.Interrupt)() // os/signal starts a goroutine for good
	before := runtime.NumGoroutine()

	stops := make([]func(), 1000)
	for i := range stops {
		stops[i] = HandleSignals(os.Interrupt)
	}
	if n := current.handlers.installed(); n != 1 {
		t.Errorf("%d handlers for one signal", n)
	}
	if n := settled(before + 1); n > before+1 {
		t.Errorf("%d goroutines for one signal", n-before)
	}
	for i, stop := range stops {
		if current.handlers.installed() != 1 {
			t.Fatalf("handler was removed with use %d of %d", i, len(stops))
		}
		stop()
		stop()
	}
	if n := current.handlers.installed(); n != 0 {
		t.Errorf("%d handlers left", n)
	}
	for range 1000 {
		HandleSignals()()
	}
	if n := current.handlers.installed(); n != 0 {
		t.Errorf("%d handlers left", n)
	}
	if n := settled(before); n > before {
		t.Errorf("%d goroutines left", n-before)
	}
}

func TestStopEndsOnlyItsOwnUse(t *testing.T) {
	needs(t, os.Interrupt)
	var h handlers
	stopOne := h.use([]os.Signal{os.Interrupt}, func(os.Signal) {})
	h.mu.Lock()
	h.removeAll()
	h.mu.Unlock()
	stopTwo := h.use([]os.Signal{os.Interrupt}, func(os.Signal) {})
	stopOne()
	if h.installed() != 1 {
		t.Error("a use from before removeAll removed a later handler")
	}
	stopTwo()
	if h.installed() != 0 {
		t.Error("handler is left")
	}
}

// In a child, because signal.Reset leaves an ignored signal ignored in the
// kernel, and later children would inherit that.
func TestIgnoredStaysIgnored(t *testing.T) {
	start(t, "ignored stays").wantCode(0)
}

func ignoredStays() {
	signal.Ignore(os.Interrupt)
	stop := HandleSignals(os.Interrupt)
	if current.handlers.installed() != 0 || !signal.Ignored(os.Interrupt) {
		say("an ignored signal is handled")
	}
	stop()
	if !signal.Ignored(os.Interrupt) {
		say("an ignored signal is no longer ignored")
	}
	os.Exit(0)
}

// A signal in the channel when its handler goes has been taken from the program
// already and must not get lost.
func TestSignalBeforeStopIsDelivered(t *testing.T) {
	one := &handler{sig: os.Interrupt, ch: make(chan os.Signal, 1)}
	one.ch <- os.Interrupt
	h := handlers{of: map[os.Signal]*handler{os.Interrupt: one}}
	h.mu.Lock()
	h.removeAll()
	h.mu.Unlock()
	var got os.Signal
	one.serve(func(sig os.Signal) { got = sig })
	if got != os.Interrupt {
		t.Errorf("got %v", got)
	}
}

func TestWhatAnArrivingSignalMeans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p process
		step := func(want verdict) *ending {
			t.Helper()
			got, run := p.note(os.Interrupt)
			if got != want {
				t.Errorf("verdict %d, want %d", got, want)
			}
			return run
		}
		run := step(begins)
		time.Sleep(sameRequest - 1)
		step(joins)
		time.Sleep(time.Nanosecond)
		step(insists)

		p.survive(run)
		if !closed(run.survived) {
			t.Error("those who wait are not told that the process survived")
		}
		step(begins)

		p = process{}
		if _, first := p.begin(nil); !first {
			t.Fatal("not the first to begin")
		}
		step(joins) // to an Exit
		time.Sleep(sameRequest)
		step(insists)
	})
}

func TestMainBegunAfterTheEnd(t *testing.T) {
	var p process
	if meaning, _ := p.note(os.Interrupt); meaning != begins {
		t.Fatal("first signal does not begin the end")
	}
	if ctx := p.enterMain(); ctx.Err() == nil {
		t.Error("context of Main is not cancelled")
	}
}

func TestAwaitMain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p process
		waited := func() time.Duration {
			from := time.Now()
			p.awaitMain()
			return time.Since(from)
		}
		if d := waited(); d != 0 {
			t.Errorf("waited %v without Main", d)
		}
		p.enterMain()
		if d := waited(); d != DefaultReturnTimeout {
			t.Errorf("waited %v, want the default", d)
		}
		p.configure(Options{ReturnTimeout: -1})
		if d := waited(); d != 0 {
			t.Errorf("waited %v, want no waiting", d)
		}
		p.configure(Options{ReturnTimeout: time.Minute})
		p.leaveMain()
		if d := waited(); d != 0 {
			t.Errorf("waited %v after Main", d)
		}
	})
}

// needs skips a test whose child would not react.
func needs(t *testing.T, sig os.Signal) {
	t.Helper()
	if signal.Ignored(sig) {
		t.Skipf("the tests were started with %v ignored, and children inherit that", sig)
	}
}
