package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

const (
	workerVar = "CAPROOT_HISTORY_WORKER"
	workers   = 4
	ttl       = 200 * time.Millisecond
)

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(workerVar)); len(args) == 3 {
		work(args[0], args[1], args[2])
		return
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// now is one clock for all processes.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// work replaces the state by ids of its own, numbered from first to last, and
// tells on standard output
//
//	begin ID TIME
//	read ID OLD       within the update, so before anything is written
//	end ID TIME OUTCOME
func work(prefix, first, last string) {
	from, _ := strconv.Atoi(first)
	to, _ := strconv.Atoi(last)
	r, err := caproot.Open(".", caproot.Workspace())
	if err != nil {
		panic(err)
	}
	o := state.Options{Timeout: time.Minute, Lease: &lock.LeaseOptions{TTL: ttl}}
	for n := from; n <= to; n++ {
		id := fmt.Sprint(prefix, ".", n)
		fmt.Println("begin", id, now())
		err := state.Update(context.Background(), r, "state", func(s *string) error {
			fmt.Println("read", id, "-"+*s)
			// Most of what is between the read and the write, where a stop hurts.
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			*s = id
			return nil
		}, o)
		outcome := lock.Code(err)
		switch {
		case err == nil:
			outcome = "done"
		case !errors.Is(err, lock.ErrCompromised) && !errors.Is(err, lock.ErrFenced):
			panic(err)
		}
		fmt.Println("end", id, now(), outcome)
	}
}

// update is one operation of the history.
type update struct {
	id, old    string
	begin, end int64
	outcome    string
	read       bool
}

// recorder collects what the workers tell.
type recorder struct {
	mu      sync.Mutex
	updates map[string]*update
}

func (r *recorder) hear(line string) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return // cut off by a kill
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.updates[words[1]]
	if u == nil {
		u = &update{id: words[1], end: math.MaxInt64}
		r.updates[words[1]] = u
	}
	switch stamp, _ := strconv.ParseInt(words[2], 10, 64); words[0] {
	case "begin":
		u.begin = stamp
	case "read":
		u.old, u.read = words[2][1:], true
	case "end":
		if len(words) == 4 {
			u.end, u.outcome = stamp, words[3]
		}
	}
}

// model is a register that is replaced: an update may follow only what it read.
var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(s, input, _ any) (bool, any) {
		u := input.(*update)
		return s == u.old, u.id
	},
}

// Four processes, killed and stopped past their TTL at random, lose no update, and
// none that was fenced writes.
func TestHistory(t *testing.T) {
	each := 2000
	if testing.Short() {
		each = 200
	}
	dir := shm(t)
	rec := &recorder{updates: map[string]*update{}}
	var all sync.WaitGroup
	kills, stops := make([]int, workers), make([]int, workers)
	for w := range workers {
		all.Go(func() { kills[w], stops[w] = disturb(t, dir, rec, w, each) })
	}
	all.Wait()
	if t.Failed() {
		return
	}
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	defer r.Close()
	final, err := state.Read[string](r, "state")
	must(t, err)
	rec.check(t, final)
	t.Logf("%v kills, %v stops", kills, stops)
}

// check finds an order in which each update follows what it had read. Of the
// updates whose outcome is not known, those count that somebody saw.
func (r *recorder) check(t *testing.T, final string) {
	seen := map[string]bool{final: true}
	for _, u := range r.updates {
		if u.read {
			seen[u.old] = true
		}
	}
	var history []porcupine.Operation
	outcomes := map[string]int{}
	for _, u := range r.updates {
		outcomes[u.outcome]++
		if u.outcome == "fenced" && seen[u.id] {
			t.Errorf("%s was fenced, and wrote", u.id)
		}
		if u.outcome == "done" || seen[u.id] {
			history = append(history, porcupine.Operation{Input: u, Call: u.begin, Return: u.end})
		}
	}
	history = append(history, porcupine.Operation{Input: &update{id: "final", old: final}, Call: math.MaxInt64 - 1, Return: math.MaxInt64})
	if result := porcupine.CheckOperationsTimeout(model, history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of %d updates is %v", len(history), result)
	}
	t.Logf("outcomes: %v", outcomes)
	if !testing.Short() && (outcomes[""] == 0 || outcomes["fenced"] == 0) {
		t.Error("nobody was killed within an update, or nobody fenced")
	}
}

// disturb runs one worker after the other until its updates are made.
func disturb(t *testing.T, dir string, rec *recorder, w, each int) (kills, stops int) {
	random := rand.New(rand.NewPCG(uint64(w), uint64(each)))
	next := 1
	for life := 0; next <= each; life++ {
		self, err := os.Executable()
		if err != nil {
			t.Error(err)
			return kills, stops
		}
		prefix := fmt.Sprintf("w%d.%d", w, life)
		cmd := exec.Command(self)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", workerVar, prefix, next, each))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Error(err)
			return kills, stops
		}
		ended := make(chan int)
		go func() {
			last := next - 1
			for lines := bufio.NewScanner(out); lines.Scan(); {
				rec.hear(lines.Text())
				if strings.HasPrefix(lines.Text(), "end ") {
					last++
				}
			}
			ended <- last
		}()
		killed := false
		for running := true; running; {
			select {
			case last := <-ended:
				next, running = last+1, false
			case <-time.After(time.Duration(1+random.IntN(120)) * time.Millisecond):
				if random.IntN(2) == 0 {
					cmd.Process.Kill()
					kills, killed = kills+1, true
					continue
				}
				cmd.Process.Signal(syscall.SIGSTOP)
				time.Sleep(ttl + time.Duration(random.IntN(300))*time.Millisecond)
				cmd.Process.Signal(syscall.SIGCONT)
				stops++
			}
		}
		if err := cmd.Wait(); err != nil && !killed {
			t.Errorf("worker %s: %v", prefix, err)
			return kills, stops
		}
	}
	return kills, stops
}

// shm is a directory where a flush costs nothing.
func shm(t *testing.T) string {
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "history")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The checker finds what it is meant to find.
func TestCheckerRefutes(t *testing.T) {
	for name, lost := range map[string][]*update{
		"lost update":    {{id: "a", begin: 1, end: 2}, {id: "b", begin: 3, end: 4}},
		"late write":     {{id: "a", begin: 1, end: 9}, {id: "b", old: "a", begin: 2, end: 3}, {id: "c", old: "a", begin: 4, end: 5}},
		"read too early": {{id: "a", begin: 5, end: 6}, {id: "b", old: "a", begin: 1, end: 2}},
	} {
		var history []porcupine.Operation
		for _, u := range lost {
			history = append(history, porcupine.Operation{Input: u, Call: u.begin, Return: u.end})
		}
		if porcupine.CheckOperations(model, history) {
			t.Errorf("%s: accepted", name)
		}
	}
}
