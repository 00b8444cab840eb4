// Package stress runs processes that want one lock and are killed all the time.
package stress

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
	"github.com/caproot/caproot/lock"
)

var kills = flag.Int("kills", 200, "processes to kill")

const (
	workerEnv = "CAPROOT_STRESS_WORKER"
	dirEnv    = "CAPROOT_STRESS_DIR"
	workers   = 8
)

// board is memory that all processes of a stress run share.
type board struct {
	inside *atomic.Int64 // the process in the section, 0 if none
	stop   *atomic.Int64
}

func openBoard(name string) (*board, error) {
	counters, err := testfs.SharedCounters(name)
	if err != nil {
		return nil, err
	}
	return &board{&counters[0], &counters[1]}, nil
}

// eventLog is one file that all processes append whole lines to: the order of
// the lines is the order of what they tell.
type eventLog struct{ file *os.File }

func openLog(dir string) (eventLog, error) {
	f, err := os.OpenFile(dir+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return eventLog{f}, err
}

func (l eventLog) add(what string, who int, value uint64) error {
	_, err := fmt.Fprintf(l.file, "%s %d %d %d\n", what, who, monotonic(), value)
	return err
}

// monotonic is the clock that all processes share.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// Eight processes want one lock and die by SIGKILL at any moment, most of them
// as its holder. Never two in the section, by a lock of the kernel's own that
// knows nothing of ours and by the log of all; no lost update; nothing left.
// Half of the processes cannot make a file without a name (cases 107, 119, 120).
func TestStress(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/count", make([]byte, 8), 0o600))
	board, err := openBoard(dir + "/board")
	must(t, err)
	log, err := openLog(dir)
	must(t, err)
	processes := make([]*exec.Cmd, workers)
	for i := range processes {
		processes[i] = startWorker(t, dir, i)
	}
	var deaths []time.Duration
	for range *kills {
		deaths = append(deaths, killOne(t, processes, board, log, dir))
	}
	board.stop.Store(1)
	for i, w := range processes {
		if err := w.Wait(); err != nil {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	// The last to die may have left a record: that is for whoever comes next.
	sweep(t, dir)
	count, err := os.ReadFile(dir + "/count")
	must(t, err)
	lines, err := os.ReadFile(dir + "/log")
	must(t, err)
	v := read(t, string(lines))
	v.close(t, binary.LittleEndian.Uint64(count))
	t.Logf("%d kills, %d sections, %d recoveries of a holder killed inside: p50 %v, p99 %v; the kernel's part, until a killed process is gone: p50 %v, p99 %v",
		*kills, v.sections, len(v.recoveries), testfs.Quantile(v.recoveries, 0.50), testfs.Quantile(v.recoveries, 0.99),
		testfs.Quantile(deaths, 0.50), testfs.Quantile(deaths, 0.99))
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		if !slices.Contains([]string{"count", "board", "log", "oracle"}, e.Name()) {
			t.Errorf("left over: %s", e.Name())
		}
	}
}

func startWorker(t *testing.T, dir string, n int) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", workerEnv, n), dirEnv+"="+dir)
	c.Stderr = os.Stderr
	up, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if _, err := up.Read(make([]byte, 1)); err != nil {
		t.Fatalf("worker %d did not come up: %v", n, err)
	}
	return c
}

// killOne kills the holder, or one time of four anybody, at a random moment of
// its section, and puts another process in its place. It returns how long it
// took until the victim was gone.
func killOne(t *testing.T, processes []*exec.Cmd, b *board, log eventLog, dir string) (death time.Duration) {
	victim := rand.IntN(len(processes))
	if rand.IntN(4) > 0 {
		for end := time.Now().Add(time.Minute); ; {
			pid := int(b.inside.Load())
			if i := slices.IndexFunc(processes, func(w *exec.Cmd) bool { return w.Process.Pid == pid }); i >= 0 {
				victim = i
				break
			}
			if time.Now().After(end) {
				t.Fatal("nobody had the lock for a minute")
			}
			time.Sleep(20 * time.Microsecond)
		}
	}
	if rand.IntN(2) == 0 {
		time.Sleep(rand.N(200 * time.Microsecond))
	}
	pid := processes[victim].Process.Pid
	must(t, log.add("kill", pid, 0))
	begun := time.Now()
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	processes[victim].Wait()
	death = time.Since(begun)
	processes[victim] = startWorker(t, dir, victim)
	return death
}

// verdict reads the log.
type verdict struct {
	value      uint64 // of the counter
	maybe      bool   // or one more: a holder died between counting and saying so
	inside     int    // the process in the section, 0 if none
	dead       map[int]bool
	diedAt     int64 // of the process inside
	sections   int
	recoveries []time.Duration
}

func read(t *testing.T, log string) *verdict {
	v := &verdict{dead: map[int]bool{}}
	for line := range strings.Lines(log) {
		var what string
		var who int
		var at int64
		var value uint64
		if _, err := fmt.Sscan(line, &what, &who, &at, &value); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		switch what {
		case "begin":
			v.begin(t, who, at, value)
		case "end":
			if v.inside != who || value != v.value+1 {
				t.Errorf("%q while %d is inside and the counter %d", line, v.inside, v.value)
			}
			v.inside, v.value, v.sections, v.diedAt = 0, value, v.sections+1, 0
		case "kill":
			v.dead[who] = true
			if v.inside == who {
				v.diedAt = at
			}
		default:
			t.Errorf("%q", line)
		}
	}
	return v
}

func (v *verdict) begin(t *testing.T, who int, at int64, value uint64) {
	if v.inside != 0 {
		if !v.dead[v.inside] {
			t.Errorf("process %d begins while %d is inside", who, v.inside)
		}
		v.maybe = true
		if v.diedAt != 0 {
			v.recoveries = append(v.recoveries, time.Duration(at-v.diedAt))
		}
	}
	if value != v.value && !(v.maybe && value == v.value+1) {
		t.Errorf("process %d finds %d, the last said %d", who, value, v.value)
	}
	v.value, v.inside, v.maybe, v.diedAt = value, who, false, 0
}

// close compares the counter at the end.
func (v *verdict) close(t *testing.T, counter uint64) {
	if died := v.inside != 0; counter != v.value && !(died && counter == v.value+1) {
		t.Errorf("the counter is %d, the log ends at %d", counter, v.value)
	}
}

// sweep acquires the lock once more, and takes away what lies under private names.
func sweep(t *testing.T, dir string) {
	t.Helper()
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	defer r.Close()
	l, err := lock.Acquire(t.Context(), r, "t", lock.Options{})
	must(t, err)
	must(t, l.Release())
	_, err = lock.Sweep(r, ".")
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
