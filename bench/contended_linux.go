package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// lockWorker is the argument by which this program runs itself as one of the
// processes that want the same lock.
const lockWorker = "lock-worker"

const (
	contenders = 4
	section    = time.Millisecond // in the lock
	think      = time.Millisecond // between two holds
)

// monotonic is the clock that all processes share (CLOCK_MONOTONIC), as
// process.hrtime is in Node.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// hold is one critical section, in monotonic nanoseconds.
type hold struct{ asked, got, gave int64 }

// workLocks is the worker: pairs or hold KIND TARGET, or contend KIND TARGET
// START END.
func workLocks(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("%s MODE KIND TARGET [START END]", lockWorker)
	}
	acquire, err := goKinds[args[1]](args[2])
	if err != nil {
		return err
	}
	switch args[0] {
	case "hold":
		return holdForEver(acquire)
	case "pairs":
		return pairsOnDemand(acquire)
	}
	var start, end int64
	if _, err := fmt.Sscan(strings.Join(args[3:], " "), &start, &end); err != nil {
		return err
	}
	var out bytes.Buffer
	time.Sleep(time.Duration(start - monotonic()))
	for monotonic() < end {
		h, err := holdOnce(acquire, args[2])
		if err != nil {
			return err
		}
		fmt.Fprintln(&out, h.asked, h.got, h.gave)
		time.Sleep(think)
	}
	_, err = out.WriteTo(os.Stdout)
	return err
}

func holdOnce(acquire take, counter string) (h hold, err error) {
	h.asked = monotonic()
	give, err := acquire()
	if err != nil {
		return h, err
	}
	h.got = monotonic()
	if err := increment(counter, func() { time.Sleep(section) }); err != nil {
		return h, err
	}
	h.gave = monotonic()
	return h, give()
}

// increment loses an update when two processes are in it at once.
func increment(counter string, between func()) error {
	data, err := os.ReadFile(counter)
	if err != nil {
		return err
	}
	value, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	between()
	return os.WriteFile(counter, []byte(strconv.Itoa(value+1)), 0o600)
}

// contention is what a kind of lock showed.
type contention struct {
	perSecond            float64
	handoff50, handoff99 time.Duration
	wait99               time.Duration
	overlaps, lost       int
}

// contend runs the processes of one kind against each other.
func contend(dir, kind string, n node, length time.Duration) (contention, error) {
	target := filepath.Join(dir, "contended-"+strings.NewReplacer("/", "-", " ", "-").Replace(kind))
	if err := os.WriteFile(target, []byte("0"), 0o600); err != nil {
		return contention{}, err
	}
	start := monotonic() + int64(time.Second) // time for the slowest runtime to come up
	times := []string{strconv.FormatInt(start, 10), strconv.FormatInt(start+int64(length), 10)}
	var processes []*exec.Cmd
	var outputs []*bytes.Buffer
	for range contenders {
		c := n.command("contend", kind, target, times...)
		out := new(bytes.Buffer)
		c.Stdout = out
		if err := c.Start(); err != nil {
			return contention{}, err
		}
		defer c.Process.Kill() // does nothing to one that was waited for
		processes, outputs = append(processes, c), append(outputs, out)
	}
	var holds []hold
	for i, c := range processes {
		if err := c.Wait(); err != nil {
			return contention{}, fmt.Errorf("%s: %w", kind, err)
		}
		for line := range strings.Lines(outputs[i].String()) {
			var h hold
			if _, err := fmt.Sscan(line, &h.asked, &h.got, &h.gave); err == nil {
				holds = append(holds, h)
			}
		}
	}
	value, err := os.ReadFile(target)
	if err != nil {
		return contention{}, err
	}
	counted, err := strconv.Atoi(string(value))
	if err != nil {
		return contention{}, err
	}
	return judge(holds, counted), nil
}

// judge reads the log of all processes together. A handoff is from the end of
// one section to the beginning of the next, if anybody was waiting meanwhile:
// for a poller the one who gets it is often not the one who waited.
func judge(holds []hold, counted int) (c contention) {
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.got, b.got) })
	var handoffs, waits []time.Duration
	for i, h := range holds {
		waits = append(waits, time.Duration(h.got-h.asked))
		if i == 0 {
			continue
		}
		before := holds[i-1]
		waited := func(h hold) bool { return h.asked < before.gave }
		if h.got < before.gave {
			c.overlaps++
		} else if slices.ContainsFunc(holds[i:], waited) {
			handoffs = append(handoffs, time.Duration(h.got-before.gave))
		}
	}
	c.lost = len(holds) - counted
	if len(holds) > 1 {
		c.perSecond = float64(len(holds)) / time.Duration(holds[len(holds)-1].gave-holds[0].got).Seconds()
	}
	c.handoff50, c.handoff99 = quantile(handoffs, 0.50), quantile(handoffs, 0.99)
	c.wait99 = quantile(waits, 0.99)
	return c
}

// middle has the medians of several runs, and all that went wrong.
func middle(runs []contention) (c contention) {
	for _, r := range runs {
		c.overlaps, c.lost = c.overlaps+r.overlaps, c.lost+r.lost
	}
	c.perSecond = median(runs, func(r contention) float64 { return r.perSecond })
	c.handoff50 = median(runs, func(r contention) time.Duration { return r.handoff50 })
	c.handoff99 = median(runs, func(r contention) time.Duration { return r.handoff99 })
	c.wait99 = median(runs, func(r contention) time.Duration { return r.wait99 })
	return c
}

func median[T cmp.Ordered](runs []contention, of func(contention) T) T {
	var all []T
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}

// printContention shows each kind beside a retained flock, the floor.
func printContention(kinds []string, results map[string]contention) {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "%d processes, %v in the lock, %v between\tholds/s\thandoff p50\tp99\twait p99\tthroughput to flock\thandoff to flock\toverlaps\tlost\n",
		contenders, section, think)
	floor := results["retained flock"]
	for _, kind := range kinds {
		c := results[kind]
		fmt.Fprintf(w, "%s\t%.0f\t%v\t%v\t%v\t%.2fx\t%.2fx\t%d\t%d\n", kind, c.perSecond,
			c.handoff50.Round(time.Microsecond), c.handoff99.Round(time.Microsecond), c.wait99.Round(time.Microsecond),
			c.perSecond/floor.perSecond, float64(c.handoff50)/float64(floor.handoff50), c.overlaps, c.lost)
	}
}
