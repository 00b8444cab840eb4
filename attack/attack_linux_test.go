package attack

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/seccomp"
)

// The environment of re-executed processes.
const (
	envAttacker = "CAPROOT_ATTACKER_ROOT"
	envMounted  = "CAPROOT_ATTACKER_MOUNTS" // what it mounts inside, if anything
	envWalker   = "CAPROOT_ATTACK_WALKER"
	envCalls    = "CAPROOT_ATTACK_CALLS"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(envAttacker); root != "" {
		fmt.Fprintln(os.Stderr, assault(root, os.Getenv(envMounted)))
		os.Exit(1)
	}
	if os.Getenv(envWalker) != "" {
		seccomp.Refuse(seccomp.Refusal{Call: unix.SYS_OPENAT2, Errno: unix.ENOSYS})
	}
	os.Exit(m.Run())
}

// start runs the attacker until the test ends.
func start(t *testing.T, a *arena, mounted string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envAttacker+"="+a.root, envMounted+"="+mounted)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		a.unmount(t)
	})
}

// work calls verbs until calls are used up or something was seen; it returns
// what, and how many calls were made.
func work(a *arena, verbs []verb, calls int64, workers int) (seen string, made int64, succeeded map[string]int64) {
	var left atomic.Int64
	var first atomic.Pointer[string]
	var mu sync.Mutex
	var wg sync.WaitGroup
	left.Store(calls)
	succeeded = map[string]int64{}
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), uint64(os.Getpid())))
			ok := map[string]int64{}
			for left.Add(-1) >= 0 && first.Load() == nil {
				v := verbs[r.IntN(len(verbs))]
				name, other := vocabulary[r.IntN(len(vocabulary))], vocabulary[r.IntN(len(vocabulary))]
				got, err := v.call(name, other)
				if err == nil {
					ok[v.name]++
				}
				if what := a.reveals(got); what != "" {
					what = fmt.Sprintf("%s(%q): %s", v.name, name, what)
					first.CompareAndSwap(nil, &what)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for name, n := range ok {
				succeeded[name] += n
			}
		})
	}
	wg.Wait()
	made = calls - max(left.Load(), 0)
	if s := first.Load(); s != nil {
		seen = *s
	}
	return seen, made, succeeded
}

func budget(t *testing.T) int64 {
	text := os.Getenv(envCalls)
	if text == "" {
		return 60_000
	}
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return n
}

func policies() map[string]caproot.Policy {
	compat := caproot.Compat()
	compat.Mounts, compat.Special = caproot.MountsStay, caproot.SpecialRefuse
	// Links may be made to anywhere and are followed: the most that can go wrong.
	compat.LinkTargets = caproot.TargetsAny
	loose := caproot.Workspace()
	loose.Durability = caproot.DurabilityNone
	return map[string]caproot.Policy{"workspace": loose, "extract": caproot.Extract(), "compat on one mount": compat}
}

// No verb under attack reads, describes or changes anything outside.
func TestRootUnderAttack(t *testing.T) {
	for name, p := range policies() {
		t.Run(name, func(t *testing.T) {
			a := newArena(t)
			r, err := caproot.Open(a.root, p)
			must(t, err)
			t.Cleanup(func() { r.Close() })
			start(t, a, a.outside)
			seen, made, succeeded := work(a, verbsOf(r), budget(t)/int64(len(policies())), 4)
			if seen != "" {
				t.Error(seen)
			}
			if what := a.changed(t); what != "" {
				t.Error(what)
			}
			var total int64
			for _, n := range succeeded {
				total += n
			}
			t.Logf("%d calls under attack, %d of them succeeded, of %d verbs", made, total, len(succeeded))
			if total < made/50 {
				t.Errorf("only %d of %d calls got anywhere: the attack leaves nothing to test", total, made)
			}
		})
	}
}

// The same without openat2.
func TestWalkerUnderAttack(t *testing.T) {
	if os.Getenv(envWalker) != "" {
		t.Skip("this is the process without openat2")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRootUnderAttack$", "-test.v", "-test.timeout=4h")
	cmd.Env = append(os.Environ(), envWalker+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// The oracle and the attacker are worth something: what people write instead
// is caught.
func TestTwinsAreCaught(t *testing.T) {
	a := newArena(t)
	start(t, a, "")
	for name, verbs := range twins(a) {
		t.Run(name, func(t *testing.T) {
			deadline := time.Now().Add(time.Minute)
			for made := int64(0); ; {
				seen, n, _ := work(a, verbs, 10_000, 2)
				if made += n; seen != "" {
					t.Logf("caught after %d calls: %s", made, seen)
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("not caught in %d calls", made)
				}
			}
		})
	}
	if what := a.changed(t); what != "" {
		t.Error("the attacker itself left its tree: ", what)
	}
}
