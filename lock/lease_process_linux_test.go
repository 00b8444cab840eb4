package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot"
)

func init() {
	children["lease"] = childLease
	children["tokens"] = childTokens
}

func childTTL() time.Duration {
	ttl, err := time.ParseDuration(os.Getenv("TTL"))
	childMust(err)
	return ttl
}

// childLease holds a lease, and writes when it is told to.
func childLease() {
	r := childRoot()
	l, err := AcquireLease(context.Background(), r, "target", LeaseOptions{TTL: childTTL()})
	childMust(err)
	fenced, err := r.Fenced(l)
	childMust(err)
	f, err := fenced.OpenView("target", os.O_WRONLY, 0)
	childMust(err)
	say("held")
	hear()
	_, werr := f.WriteAt([]byte("late"), 0)
	_, perr := fenced.Put("target", []byte("late"), caproot.PutOptions{})
	say(Code(werr) + " " + Code(perr) + " " + strconv.FormatBool(l.Expired()))
	<-l.Lost()
	say(Code(l.Release()))
}

// Case 147: a holder that is stopped past its TTL and goes on after a successor
// has written is refused, in a file that it had open too.
func TestStoppedHolder(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/target", []byte("old"), 0o600))
	c := start(t, dir, "lease", "TTL=300ms")
	c.hears("held")
	must(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	r := openRoot(t, dir)
	l, err := AcquireLease(deadline(t), r, "target", LeaseOptions{TTL: time.Minute, Timeout: time.Minute})
	must(t, err)
	if l.Token() != 2 {
		t.Errorf("token %d", l.Token())
	}
	fenced, err := r.Fenced(l)
	must(t, err)
	defer fenced.Close()
	_, err = fenced.Put("target", []byte("successor"), caproot.PutOptions{})
	must(t, err)
	must(t, c.cmd.Process.Signal(syscall.SIGCONT))
	c.tell()
	c.hears("fenced fenced true")
	c.hears("lease-lost")
	c.end()
	if data, _ := os.ReadFile(dir + "/target"); string(data) != "successor" {
		t.Errorf("%q", data)
	}
	must(t, l.Verify(context.Background()))
	must(t, l.Release())
	wantNames(t, dir, ".caproot", "target")
}

// A holder that is proved dead does not keep anybody waiting for its TTL.
func TestKilledLeaseHolder(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/target", nil, 0o600))
	c := start(t, dir, "lease", "TTL=10h")
	c.hears("held")
	r := openRoot(t, dir)
	s, err := InspectLease(context.Background(), r, "target", LeaseOptions{})
	must(t, err)
	if s.State != Held || s.Liveness != Running {
		t.Errorf("%+v", s)
	}
	c.kill()
	if s, err = InspectLease(context.Background(), r, "target", LeaseOptions{}); err != nil || s.State != Dead {
		t.Errorf("%+v, %v", s, err)
	}
	l, err := AcquireLease(context.Background(), r, "target", LeaseOptions{})
	must(t, err)
	if l.Token() != 2 {
		t.Errorf("token %d", l.Token())
	}
	must(t, l.Release())
	wantNames(t, dir, ".caproot", "target")
}

// Cases 114 to 117 for leases: only where host, boot and namespace are equal and
// known does a process id say something.
func TestLiveness(t *testing.T) {
	var here LeaseRecord
	here.thisHolder()
	if here.PIDNamespace == "" || here.StartTime == 0 {
		t.Skip("/proc does not tell who this process is")
	}
	for name, c := range map[string]struct {
		change func(r *LeaseRecord)
		want   Liveness
	}{
		"this process":      {func(r *LeaseRecord) {}, Running},
		"a reused id":       {func(r *LeaseRecord) { r.StartTime++ }, NotRunning},
		"no such process":   {func(r *LeaseRecord) { r.PID = 1<<22 + 1 }, NotRunning},
		"no id":             {func(r *LeaseRecord) { r.PID = 0 }, LivenessUnknown},
		"no start time":     {func(r *LeaseRecord) { r.StartTime = 0 }, LivenessUnknown},
		"another host":      {func(r *LeaseRecord) { r.Hostname += "x"; r.PID = 1 << 23 }, LivenessUnknown},
		"another boot":      {func(r *LeaseRecord) { r.BootID = "x"; r.PID = 1 << 23 }, LivenessUnknown},
		"no boot id":        {func(r *LeaseRecord) { r.BootID = ""; r.PID = 1 << 23 }, LivenessUnknown},
		"another namespace": {func(r *LeaseRecord) { r.PIDNamespace = "pid:[1]"; r.PID = 1 << 23 }, LivenessUnknown},
		"no namespace":      {func(r *LeaseRecord) { r.PIDNamespace = ""; r.PID = 1 << 23 }, LivenessUnknown},
	} {
		record := here
		if c.change(&record); record.Liveness() != c.want {
			t.Errorf("%s: %v, want %v", name, record.Liveness(), c.want)
		}
	}
	for stat, want := range map[string]uint64{
		"12 (a) b) (c) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0": 777,
		"12 (a S 1 2": 0, "": 0, "12 (x) S 1": 0,
	} {
		if got, known := startTicks([]byte(stat)); got != want || known != (want != 0) {
			t.Errorf("%q: %d, %v", stat, got, known)
		}
	}
}

// childTokens acquires and releases until it is killed, and tells each token that
// it was given before and after writing it down.
func childTokens() {
	r := childRoot()
	for {
		l, err := AcquireLease(context.Background(), r, "target", LeaseOptions{TTL: time.Minute, Timeout: time.Minute})
		childMust(err)
		fenced, err := r.Fenced(l)
		childMust(err)
		_, err = fenced.Append("log", fmt.Appendln(nil, l.Token()), caproot.AppendOptions{})
		childMust(err)
		fenced.Close()
		childMust(l.Release())
	}
}

// Case 153: tokens rise strictly over two processes that are killed at any moment.
func TestTokensRiseOverCrashes(t *testing.T) {
	dir := t.TempDir()
	pair := []*child{start(t, dir, "tokens"), start(t, dir, "tokens")}
	for n := range 30 {
		waitForMore(t, dir+"/log")
		pair[n%2].kill()
		pair[n%2] = start(t, dir, "tokens")
	}
	for _, c := range pair {
		c.kill()
	}
	data, err := os.ReadFile(dir + "/log")
	must(t, err)
	last := uint64(0)
	for line := range strings.Lines(string(data)) {
		token, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil || token <= last {
			t.Fatalf("token %q after %d", line, last)
		}
		last = token
	}
}

// waitForMore waits until somebody has written to the file again.
func waitForMore(t *testing.T, file string) {
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for before, limit := size(), time.Now().Add(hangLimit); size() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody gets on")
		}
	}
}

// Case 156: a release waits for the beat under way; there is no record after it,
// and no goroutine.
func TestReleaseDuringBeat(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 500
	}
	dir, err := os.MkdirTemp(fastDir(), "lease")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := openRoot(t, dir)
	before := runtime.NumGoroutine()
	for range rounds {
		l := acquireTest(t, r, LeaseOptions{})
		var both sync.WaitGroup
		both.Go(func() { l.beat() })
		both.Go(func() { must(t, l.Release()) })
		both.Wait()
		if exists, err := r.Lexists("target.lock"); exists || err != nil {
			t.Fatalf("exists %v, %v", exists, err)
		}
	}
	// A goroutine that is done may not have left yet; one that is stuck never does.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// fastDir is where a flush costs nothing.
func fastDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// A stream of changes does not keep a successor from its token, and none of them
// comes after it.
func TestStreamOfChanges(t *testing.T) {
	dir := t.TempDir()
	r := openRoot(t, dir)
	must(t, os.WriteFile(dir+"/log", nil, 0o600))
	const rounds, writers = 20, 4
	var refused atomic.Int32
	var all sync.WaitGroup
	for token := uint64(1); token <= rounds; token++ {
		fence, err := FenceAt(deadline(t), r, "target", token)
		must(t, err)
		t.Cleanup(func() { fence.Close() })
		fenced, err := r.Fenced(fence)
		must(t, err)
		t.Cleanup(func() { fenced.Close() })
		_, err = fenced.Append("log", fmt.Appendln(nil, token), caproot.AppendOptions{})
		must(t, err)
		for range writers {
			all.Go(func() {
				for {
					_, err := fenced.Append("log", fmt.Appendln(nil, token), caproot.AppendOptions{})
					if errors.Is(err, ErrFenced) {
						refused.Add(1)
						return
					}
					if err != nil || token == rounds {
						must(t, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if refused.Load() != (rounds-1)*writers {
		t.Errorf("%d refused", refused.Load())
	}
	data, err := os.ReadFile(dir + "/log")
	must(t, err)
	last := uint64(0)
	for line := range strings.Lines(string(data)) {
		token, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil || token < last {
			t.Fatalf("token %q after %d", line, last)
		}
		last = token
	}
}
