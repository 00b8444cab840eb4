package attack

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/seccomp"
	"github.com/caproot/caproot/internal/testfs"
)

// The environment of re-executed processes.
const (
	envAttacker = "CAPROOT_ATTACKER_ROOT"
	envMounted  = "CAPROOT_ATTACKER_MOUNTS" // what it mounts inside, if anything
	envAlias    = "CAPROOT_ATTACKER_LINKS"  // what it gives names inside, if anything
	envWalker   = "CAPROOT_ATTACK_WALKER"
	envCalls    = "CAPROOT_ATTACK_CALLS"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(envAttacker); root != "" {
		// The pipe ends with the process that started this one, however that ends.
		go func() {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		fmt.Fprintln(os.Stderr, assault(root, os.Getenv(envMounted), os.Getenv(envAlias)))
		os.Exit(1)
	}
	if os.Getenv(envWalker) != "" {
		seccomp.Refuse(seccomp.Refusal{Call: unix.SYS_OPENAT2, Errno: unix.ENOSYS})
	}
	os.Exit(m.Run())
}

// attackers is how many processes change the tree.
const attackers = 2

// start runs the attackers until the test ends, and returns the count of what
// they did.
func start(t *testing.T, a *arena, mounted, alias string) *atomic.Int64 {
	t.Cleanup(func() { a.unmount(t) })
	for range attackers {
		startOne(t, envAttacker+"="+a.root, envMounted+"="+mounted, envAlias+"="+alias)
	}
	done, err := testfs.SharedCounters(counterOf(a.root))
	must(t, err)
	return &done[0]
}

// startOne runs one. If it ends before, it has found something that it cannot do.
func startOne(t *testing.T, env ...string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("an attacker gave up: %v", err)
		default:
			cmd.Process.Kill()
			<-ended
		}
	})
}

// work calls verbs until calls are used up or something was seen; it returns
// what, and how many calls of each verb were made and succeeded.
func work(a *arena, verbs []verb, calls int64, workers int) (seen string, made tally) {
	var left atomic.Int64
	var first atomic.Pointer[string]
	var mu sync.Mutex
	var wg sync.WaitGroup
	left.Store(calls)
	made = tally{}
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), uint64(os.Getpid())))
			mine := tally{}
			for left.Add(-1) >= 0 && first.Load() == nil {
				v := verbs[r.IntN(len(verbs))]
				name, other := vocabulary[r.IntN(len(vocabulary))], vocabulary[r.IntN(len(vocabulary))]
				got, err := v.call(name, other)
				mine.add(v.name, 1, err == nil)
				if what := a.reveals(got); what != "" {
					what = fmt.Sprintf("%s(%q): %s", v.name, name, what)
					first.CompareAndSwap(nil, &what)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			made.join(mine)
		})
	}
	wg.Wait()
	if s := first.Load(); s != nil {
		seen = *s
	}
	return seen, made
}

// tally counts calls, and those of them that succeeded, by verb.
type tally map[string][2]int64

func (c tally) add(verb string, made int64, succeeded bool) {
	n := c[verb]
	n[0] += made
	if succeeded {
		n[1]++
	}
	c[verb] = n
}

func (c tally) join(other tally) {
	for verb, n := range other {
		c[verb] = [2]int64{c[verb][0] + n[0], c[verb][1] + n[1]}
	}
}

func (c tally) sum() (made, succeeded int64) {
	for _, n := range c {
		made, succeeded = made+n[0], succeeded+n[1]
	}
	return made, succeeded
}

// String has the verbs in order, with calls and successes.
func (c tally) String() string {
	var b strings.Builder
	for _, verb := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%-22s %9d %9d\n", verb, c[verb][0], c[verb][1])
	}
	return b.String()
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
	each := (budget(t) + int64(len(policies())) - 1) / int64(len(policies()))
	for name, p := range policies() {
		t.Run(name, func(t *testing.T) {
			a := newArena(t)
			r, err := caproot.Open(a.root, p)
			must(t, err)
			t.Cleanup(func() { r.Close() })
			a.links = p.Hardlinks
			attacks := start(t, a, a.outside, a.alias)
			seen, made := work(a, verbsOf(r, a), each, 4)
			if seen != "" {
				t.Error(seen)
			}
			if what := a.changed(t); what != "" {
				t.Error(what)
			}
			calls, succeeded := made.sum()
			t.Logf("%d calls under %d changes by the attackers, %d of them succeeded, of %d verbs\n%v",
				calls, attacks.Load(), succeeded, len(made), made)
			if attacks.Load() < calls/50 {
				t.Errorf("only %d changes: that is no attack", attacks.Load())
			}
			if succeeded < calls/50 {
				t.Errorf("only %d of %d calls got anywhere: the attack leaves nothing to test", succeeded, calls)
			}
		})
	}
}

// The same without openat2.
func TestWalkerUnderAttack(t *testing.T) {
	if os.Getenv(envWalker) != "" {
		t.Skip("this is the process without openat2")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^(TestRootUnderAttack|TestTwinsAreCaught)$", "-test.v", "-test.timeout=4h")
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
	start(t, a, "", "")
	for name, verbs := range twins(a) {
		t.Run(name, func(t *testing.T) {
			deadline := time.Now().Add(time.Minute)
			for made := (tally{}); ; {
				seen, more := work(a, verbs, 10_000, 2)
				made.join(more)
				if calls, _ := made.sum(); seen != "" {
					t.Logf("caught after %d calls: %s", calls, seen)
					return
				} else if time.Now().After(deadline) {
					t.Fatalf("not caught in %d calls", calls)
				}
			}
		})
	}
	if what := a.changed(t); what != "" {
		t.Error("the attacker itself left its tree: ", what)
	}
}

// What a path leads to is changed outside, and the seal shows it.
func TestTwinThatWritesIsCaught(t *testing.T) {
	a := newArena(t)
	start(t, a, "", a.alias)
	a.links = caproot.HardlinksRefuseMutation
	deadline := time.Now().Add(time.Minute)
	for made := (tally{}); ; {
		_, more := work(a, writingTwins(a), 1000, 2)
		made.join(more)
		if what := a.changed(t); what != "" {
			calls, _ := made.sum()
			t.Logf("caught after at most %d calls", calls)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not caught: %v", made)
		}
	}
}
