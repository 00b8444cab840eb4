package interop

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
	"github.com/caproot/caproot/lock"
)

// witness is the line that makes a record one: preamble, then version, flags,
// boot, inode and checksum as white space.
var witness = regexp.MustCompile(`\n( \t){4}[ \t]{176}\n\t{8}[ \t]{128}\n$`)

// Go processes on kernels that differ exclude each other: without files that
// have no name, without openat2, without flock, and with records kept.
func TestCountersAmongKernels(t *testing.T) {
	const rounds = 100
	dir := t.TempDir()
	counter := dir + "/count"
	must(t, os.WriteFile(counter, []byte("0"), 0o600))
	peers := []*peer{
		startGo(t, "root"),
		startGo(t, "raw", withoutEnv+"=tmpfile"),
		startGo(t, "root", withoutEnv+"=openat2", keepEnv+"=1"),
		startGo(t, "root", withoutEnv+"=flock"),
		startGo(t, "raw", withoutEnv+"=flock,tmpfile,openat2"),
	}
	ids := make([]int, len(peers))
	for i, p := range peers {
		ids[i] = p.begin(command{Op: "count", Target: dir + "/t", Counter: counter, N: rounds})
	}
	for i, p := range peers {
		if a := p.next(ids[i]); !a.Done || a.Code != "" {
			t.Errorf("peer %d: %v", i, a)
		}
	}
	data, err := os.ReadFile(counter)
	must(t, err)
	if value, _ := strconv.Atoi(string(data)); value != rounds*len(peers) {
		t.Errorf("counted %d, want %d", value, rounds*len(peers))
	}
}

// Where flock is missing there is no witness, and nothing says so in the
// record that is not true: a dead holder's record is never removed unasked.
func TestWithoutFlock(t *testing.T) {
	for _, env := range []string{"flock", "flock,tmpfile"} {
		t.Run(env, func(t *testing.T) {
			dir := t.TempDir()
			holder := startGo(t, "root", withoutEnv+"="+env)
			holder.hold(command{Target: dir + "/t"})
			noWitness(t, dir, holder, startGo(t, "root"))
		})
	}
}

// A file system that is not known to tell the truth about its locks gets no
// witness either. ramfs is not on the list of those that do.
func TestUntrustedMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("ramfs", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("no ramfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	holder := startGo(t, "root")
	holder.hold(command{Target: dir + "/t"})
	if inspected(t, dir).Trusted {
		t.Error("ramfs is taken for proof")
	}
	noWitness(t, dir, holder, startGo(t, "root"))
}

// inspected is the status of t in dir.
func inspected(t *testing.T, dir string) lock.Status {
	t.Helper()
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	defer r.Close()
	s, err := lock.Inspect(t.Context(), r, "t", lock.Options{})
	must(t, err)
	return s
}

// noWitness is given a holder of t in dir whose record proves nothing.
func noWitness(t *testing.T, dir string, holder, next *peer) {
	raw, err := os.ReadFile(dir + "/t.lock")
	must(t, err)
	if witness.Match(raw) || !token.Match(raw) {
		t.Errorf("record %q", raw)
	}
	if a := next.do(command{Op: "acquire", Target: dir + "/t", Recover: "yes", TimeoutMs: within(50)}); a.Code != "busy" {
		t.Errorf("while it holds: %v", a)
	}
	if s := inspected(t, dir); s.State != lock.Unknown {
		t.Errorf("while it holds: %v", s.State)
	}
	holder.kill()
	if s := inspected(t, dir); s.State != lock.Unknown {
		t.Errorf("dead, but who knows: %v", s.State)
	}
	before := content(t, dir+"/t.lock")
	if a := next.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(50)}); a.Code != "busy" {
		t.Errorf("dead, but who knows: %v", a)
	}
	must(t, os.Chtimes(dir+"/t.lock", time.Time{}, time.Now().Add(-time.Hour)))
	if a := next.do(command{Op: "acquire", Target: dir + "/t"}); a.Code != "stale" {
		t.Errorf("old: %v", a)
	}
	if after := content(t, dir+"/t.lock"); after != before {
		t.Errorf("the record changed:\n%q\n%q", before, after)
	}
	h := next.hold(command{Target: dir + "/t", Recover: "yes"})
	next.release(h)
	next.end()
	if left := entries(t, dir); left != nil {
		t.Errorf("left over: %v", left)
	}
}

// On a file system that is known, the record names itself a witness, and its
// own inode: so a copy of it, whose maker is dead and whose bytes are the same,
// proves nothing.
func TestWitness(t *testing.T) {
	for maker, env := range makers {
		t.Run(maker, func(t *testing.T) {
			dir := t.TempDir()
			holder, next := startGo(t, "root", env...), startGo(t, "root")
			holder.hold(command{Target: dir + "/t"})
			raw, err := os.ReadFile(dir + "/t.lock")
			must(t, err)
			if !witness.Match(raw) {
				t.Fatalf("record %q", raw)
			}
			if named, own := namedInode(raw), inode(t, dir+"/t.lock"); named != own {
				t.Errorf("names inode %d, is %d", named, own)
			}
			holder.kill()
			must(t, os.WriteFile(dir+"/copy", raw, 0o600))
			must(t, os.Rename(dir+"/copy", dir+"/t.lock"))
			before := content(t, dir+"/t.lock")
			if a := next.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(50)}); a.Code != "busy" {
				t.Errorf("a copied record: %v", a)
			}
			if after := content(t, dir+"/t.lock"); after != before {
				t.Errorf("the record changed:\n%q\n%q", before, after)
			}
		})
	}
}

// namedInode reads the witness line: the inode stands before the checksum, its
// highest bit first, a tab for 1.
func namedInode(record []byte) (n uint64) {
	line := witness.Find(record)[1:][8+80 : 8+80+64]
	for _, c := range line {
		n <<= 1
		if c == '\t' {
			n |= 1
		}
	}
	return n
}

// A Go process is killed before each of its calls, once from a free lock to
// its release, once taking over from a dead holder: the next one has the lock,
// and nothing is left.
func TestGoKilledAnywhere(t *testing.T) {
	for maker, env := range makers {
		for _, dead := range []bool{false, true} {
			t.Run(maker+map[bool]string{false: " free", true: " dead"}[dead], func(t *testing.T) {
				for step := 0; killAt(t, step, dead, env); step++ {
					if step > 100 {
						t.Fatal("no end of calls")
					}
				}
			})
		}
	}
}

func killAt(t *testing.T, step int, dead bool, env []string) bool {
	dir := t.TempDir()
	if dead {
		leaveDead(t, dir, env)
	}
	victim, gate := startGated(t, env)
	trail, stopped := passUntil(t, gate, step, func() answer {
		a := victim.do(command{Op: "acquire", Target: dir + "/t"})
		if a.Code == "" {
			a = victim.do(command{Op: "release", Handle: a.Handle})
		}
		return a
	})
	victim.kill()
	if !stopped {
		return false
	}
	left := entries(t, dir)
	takeOver(t, dir, env)
	if after := swept(t, dir); after != nil {
		t.Errorf("killed before the last of %v, it left %v, and the next %v", trail, left, after)
	}
	return true
}

// swept lists what stays in the directory when the private records of dead
// processes are taken away, and so under no name that others know.
func swept(t *testing.T, dir string) []string {
	t.Helper()
	r, err := caproot.Open(dir, caproot.Workspace())
	must(t, err)
	defer r.Close()
	if _, err := lock.Sweep(r, "."); err != nil {
		t.Error(err)
	}
	return entries(t, dir)
}

// leaveDead leaves the record of a holder that was killed.
func leaveDead(t *testing.T, dir string, env []string) {
	holder := startGo(t, "root", env...)
	holder.hold(command{Target: dir + "/t"})
	holder.kill()
}

// takeOver acquires and releases in another process, which ends in order.
func takeOver(t *testing.T, dir string, env []string) {
	next := startGo(t, "root", env...)
	next.release(next.hold(command{Target: dir + "/t", TimeoutMs: within(10000)}))
	next.end()
}

func startGated(t *testing.T, env []string) (*peer, *testfs.Gate) {
	p := startGo(t, "root", append([]string{gateEnv + "=1"}, env...)...)
	gate := testfs.OpenGate(t, p.process.Process.Pid, p.listener)
	t.Cleanup(p.kill) // before the gate's own
	return p, gate
}

// passUntil lets work make that many calls and leaves it standing before the
// next, the last of the trail; or stopped is false, and work is done.
func passUntil(t *testing.T, gate *testfs.Gate, passing int, work func() answer) (trail []string, stopped bool) {
	t.Helper()
	done := make(chan answer, 1)
	go func() { done <- work() }()
	for {
		select {
		case a := <-done:
			if a.Code != "" {
				t.Errorf("undisturbed: %v", a)
			}
			gate.PassAll()
			return trail, false
		case c, ok := <-gate.Calls:
			if !ok {
				t.Fatalf("the peer died after %v", trail)
			}
			if trail = append(trail, c.String()); len(trail) > passing {
				return trail, true
			}
			gate.Pass(c)
		}
	}
}
