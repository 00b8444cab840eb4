//go:build unix

package exitcleanup

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
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
