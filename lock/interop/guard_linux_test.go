package interop

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Go finds Node inside its guard: it waits, its error names the guard, and
// neither guard nor record is touched. Then Node goes on and has the lock.
func TestGoWaitsForNodeGuard(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root"} {
		t.Run(kind, func(t *testing.T) {
			node, waiter, dir := startNode(t, kind), startGo(t, "root"), t.TempDir()
			stale(t, dir+"/t.lock")
			before := content(t, dir+"/t.lock")
			id := node.begin(command{Op: "acquire", Target: dir + "/t", Recover: "ask"})
			if a := node.next(id); a.Event != "stale" {
				t.Fatalf("asked for %v", a)
			}
			a := waiter.do(command{Op: "acquire", Target: dir + "/t", Recover: "yes", TimeoutMs: within(100)})
			if a.Code != "busy" || !strings.Contains(a.Message, "guard") {
				t.Errorf("beside the guard: %v", a)
			}
			if after := content(t, dir+"/t.lock"); after != before {
				t.Errorf("the record changed:\n%q\n%q", before, after)
			}
			waiting := waiter.begin(command{Op: "acquire", Target: dir + "/t", Recover: "no"})
			node.send(command{ID: id, Op: "answer", Value: true})
			got := node.next(id)
			if got.Code != "" {
				t.Fatalf("Node inside its guard: %v", got)
			}
			node.release(got.Handle)
			if a := waiter.next(waiting); a.Code != "" {
				t.Errorf("after Node: %v", a)
			}
		})
	}
}

// Node dies inside its guard, which nothing proves: Go fails closed, naming
// the guard, until a person removes it (cases 111, 112).
func TestGoKeepsDeadNodeGuard(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root"} {
		t.Run(kind, func(t *testing.T) {
			node, waiter, dir := startNode(t, kind), startGo(t, "root"), t.TempDir()
			stale(t, dir+"/t.lock")
			if a := node.next(node.begin(command{Op: "acquire", Target: dir + "/t", Recover: "ask"})); a.Event != "stale" {
				t.Fatalf("asked for %v", a)
			}
			node.kill()
			a := waiter.do(command{Op: "acquire", Target: dir + "/t", Recover: "yes", TimeoutMs: within(100)})
			if a.Code != "busy" || !strings.Contains(a.Message, ".reclaim") {
				t.Errorf("beside the guard: %v", a)
			}
			if left := entries(t, dir); len(left) != 2 {
				t.Errorf("left: %v", left)
			}
			must(t, os.Remove(dir+"/t.lock.reclaim"))
			waiter.hold(command{Target: dir + "/t", Recover: "yes"})
		})
	}
}

// Node finds Go inside its guard, over a record without a witness, and waits.
func TestNodeWaitsForGoGuard(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root", "sync"} {
		t.Run(kind, func(t *testing.T) {
			node, reclaimer, dir := startNode(t, kind), startGo(t, "root"), t.TempDir()
			stale(t, dir+"/t.lock")
			id := reclaimer.begin(command{Op: "acquire", Target: dir + "/t", Recover: "ask"})
			if a := reclaimer.next(id); a.Event != "stale" {
				t.Fatalf("asked for %v", a)
			}
			if fi, err := os.Lstat(dir + "/t.lock.reclaim"); err != nil || !fi.Mode().IsRegular() {
				t.Errorf("no regular guard while the caller is asked: %v", err)
			}
			a := node.do(command{Op: "acquire", Target: dir + "/t", Recover: "yes", TimeoutMs: within(100)})
			if a.Code != "file_lock_timeout" {
				t.Errorf("beside the guard: %v", a)
			}
			reclaimer.send(command{ID: id, Op: "answer", Value: true})
			got := reclaimer.next(id)
			if got.Code != "" {
				t.Fatalf("Go inside its guard: %v", got)
			}
			reclaimer.release(got.Handle)
			node.hold(command{Target: dir + "/t"})
		})
	}
}

// Go is killed before each of the calls by which it takes over from a dead
// holder. Whatever is left, Node with consent to recover never has the lock
// beside a live holder and never hangs in an error of its own; and the next Go
// contender clears all of it (case 112).
func TestGoKilledInsideReclaim(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root"} {
		for maker, env := range makers {
			t.Run(kind+" "+maker, func(t *testing.T) {
				node := startNode(t, kind)
				for step := 0; killBefore(t, node, step, env); step++ {
					if step > 100 {
						t.Fatal("no end of calls")
					}
				}
			})
		}
	}
}

// killBefore lets a Go peer take over from a dead holder and kills it before
// its nth call; false when it was done before.
func killBefore(t *testing.T, node *peer, n int, env []string) bool {
	dir := t.TempDir()
	leaveDead(t, dir, env)
	reclaimer, gate := startGated(t, env)
	trail, stopped := passUntil(t, gate, n, func() answer { return reclaimer.do(command{Op: "acquire", Target: dir + "/t"}) })
	reclaimer.kill()
	if !stopped {
		return false
	}
	left := entries(t, dir)
	a := node.do(command{Op: "acquire", Target: dir + "/t", StaleMs: 50, Recover: "yes", TimeoutMs: within(150)})
	wanted := ""
	if slices.Contains(left, "t.lock.reclaim") {
		wanted = "file_lock_timeout"
	}
	if a.Code != wanted {
		t.Errorf("killed before the last of %v, it left %v: Node answers %v, want %q", trail, left, a, wanted)
	}
	if a.Code == "" {
		node.release(a.Handle)
	}
	takeOver(t, dir, env)
	if after := swept(t, dir); after != nil {
		t.Errorf("killed before the last of %v, it left %v, and the next %v", trail, left, after)
	}
	return true
}
