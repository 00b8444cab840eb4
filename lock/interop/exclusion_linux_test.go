package interop

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// makers are the ways in which Go publishes a record, by what the peer is
// started with.
var makers = map[string][]string{
	"unnamed": nil,
	"renamed": {withoutEnv + "=tmpfile"},
	"kept":    {keepEnv + "=1"},
}

// contention is a run of two Go and two Node processes.
type contention struct {
	nodeKind, goKind string
	env              []string
	payload          map[string]any // of all; nil is each side's default
}

const rounds = 40 // of each process

// run lets all count, and fails the test unless the counter says what they say
// and nothing is left. It returns how the peers ended.
func (c contention) run(t *testing.T) (ends []answer) {
	dir := t.TempDir()
	counter := dir + "/count"
	must(t, os.WriteFile(counter, []byte("0"), 0o600))
	peers := []*peer{
		startNode(t, c.nodeKind), startNode(t, c.nodeKind), startGo(t, c.goKind, c.env...), startGo(t, c.goKind, c.env...),
	}
	ids := make([]int, len(peers))
	for i, p := range peers {
		ids[i] = p.begin(command{Op: "count", Target: dir + "/t", Counter: counter, N: rounds, Payload: c.payload})
	}
	total := 0
	for i, p := range peers {
		ends = append(ends, p.next(ids[i]))
		total += ends[i].Counted
	}
	data, err := os.ReadFile(counter)
	must(t, err)
	if value, _ := strconv.Atoi(string(data)); value != total {
		t.Errorf("the counter says %d, the peers %d: %v", value, total, ends)
	}
	for _, p := range peers {
		p.end()
	}
	if left := swept(t, dir); !slices.Equal(left, []string{"count"}) {
		t.Errorf("left over: %v", left)
	}
	return ends
}

// Two Go and two Node processes under contention, each record maker against
// each kind of fs-safe lock: no two in the section, no update lost.
func TestCountersUnderContention(t *testing.T) {
	nodePeer(t)
	for _, nodeKind := range []string{"raw", "root", "sync"} {
		for _, goKind := range []string{"raw", "root"} {
			for maker, env := range makers {
				c := contention{nodeKind: nodeKind, goKind: goKind, env: env}
				if nodeKind == "root" {
					if maker == "kept" {
						continue // see TestKeptRecordAgainstNodeRoot
					}
					// Without it the asynchronous Root of fs-safe reads the time of
					// modification, takes a record that is gone by then for a stale one, and
					// may give up with an error when it looks again.
					c.payload = map[string]any{"createdAt": time.Now().UTC().Format(time.RFC3339)}
				}
				t.Run(fmt.Sprintf("node %s, go %s %s", nodeKind, goKind, maker), func(t *testing.T) {
					for i, a := range c.run(t) {
						if a.Code != "" || a.Counted != rounds {
							t.Errorf("peer %d: %v after %d", i, a, a.Counted)
						}
					}
				})
			}
		}
	}
}

// The asynchronous Root of fs-safe gives up with an error when a record that it
// is reading is moved away and not removed, as KeepRecord does. Nothing worse
// happens: no two in the section, no update lost, and Go goes on.
func TestKeptRecordAgainstNodeRoot(t *testing.T) {
	nodePeer(t)
	for i, a := range (contention{nodeKind: "root", goKind: "root", env: makers["kept"]}).run(t) {
		switch {
		case a.Code == "" && a.Counted == rounds:
		case i < 2 && gaveUp(a):
			t.Logf("Node gave up after %d: %v", a.Counted, a)
		default:
			t.Errorf("peer %d: %v after %d", i, a, a.Counted)
		}
	}
}

// A Node contender that takes records of 300 ms for stale waits for a Go
// holder of a second, because the holder keeps its record fresh.
func TestNodeWaitsPastStale(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root", "sync"} {
		for maker, env := range makers {
			t.Run(kind+" "+maker, func(t *testing.T) {
				node, holder, dir := startNode(t, kind), startGo(t, "root", env...), t.TempDir()
				h := holder.hold(command{Target: dir + "/t", StaleMs: 300})
				before := content(t, dir+"/t.lock")
				begun := time.Now()
				a := node.do(command{Op: "acquire", Target: dir + "/t", StaleMs: 300, TimeoutMs: within(1000)})
				if a.Code != "file_lock_timeout" || time.Since(begun) < time.Second {
					t.Errorf("after %v: %v", time.Since(begun), a)
				}
				if after := content(t, dir+"/t.lock"); after != before {
					t.Errorf("the record changed while held:\n%q\n%q", before, after)
				}
				id := node.begin(command{Op: "acquire", Target: dir + "/t", StaleMs: 300})
				holder.release(h)
				if a := node.next(id); a.Code != "" && !(kind == "root" && gaveUp(a)) {
					t.Errorf("after the release: %v", a)
				}
			})
		}
	}
}

// gaveUp is the answer of an asynchronous Root of fs-safe under which a record
// that it was reading went.
func gaveUp(a answer) bool { return a.Code == "not-found" || a.Code == "path-mismatch" }

// Go waits for a Node holder, never touches its record, and is next.
func TestGoWaitsForNode(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root", "sync"} {
		t.Run(kind, func(t *testing.T) {
			node, waiter, dir := startNode(t, kind), startGo(t, "root"), t.TempDir()
			h := node.hold(command{Target: dir + "/t"})
			before := content(t, dir+"/t.lock")
			if a := waiter.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(100)}); a.Code != "busy" {
				t.Errorf("while Node holds: %v", a)
			}
			if a := waiter.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(0)}); a.Code != "busy" {
				t.Errorf("one try: %v", a)
			}
			id := waiter.begin(command{Op: "acquire", Target: dir + "/t"})
			if after := content(t, dir+"/t.lock"); after != before {
				t.Errorf("the record changed:\n%q\n%q", before, after)
			}
			if a := node.do(command{Op: "verify", Handle: h}); !a.Held {
				t.Errorf("Node does not hold any more: %v", a)
			}
			node.release(h)
			if a := waiter.next(id); a.Code != "" {
				t.Errorf("after the release: %v", a)
			}
		})
	}
}

// However old a live Node record says it is, Go does not remove it by itself,
// nor when its caller does not approve (cases 107, 113).
func TestGoNeverRemovesLiveNodeRecord(t *testing.T) {
	nodePeer(t)
	old := map[string]any{"createdAt": "1970-01-01T00:00:00.000Z"}
	for _, kind := range []string{"raw", "root", "sync"} {
		for _, approval := range []string{"", "no"} {
			t.Run(kind+" "+approval, func(t *testing.T) {
				node, waiter, dir := startNode(t, kind), startGo(t, "root"), t.TempDir()
				h := node.hold(command{Target: dir + "/t", Payload: old})
				before := content(t, dir+"/t.lock")
				a := waiter.do(command{Op: "acquire", Target: dir + "/t", Recover: approval, TimeoutMs: within(200)})
				if a.Code != "stale" {
					t.Errorf("against an old record: %v", a)
				}
				if after := content(t, dir+"/t.lock"); after != before {
					t.Errorf("the record changed:\n%q\n%q", before, after)
				}
				if a := node.do(command{Op: "verify", Handle: h}); !a.Held {
					t.Errorf("Node does not hold any more: %v", a)
				}
				node.release(h)
				if left := entries(t, dir); left != nil {
					t.Errorf("left over: %v", left)
				}
			})
		}
	}
}

// A dead Go holder is, for Node, a record that ages: an error by default,
// recovered when its caller opted in; for Go it is recovered at once.
func TestDeadGoHolder(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root", "sync"} {
		for maker, env := range makers {
			t.Run(kind+" "+maker, func(t *testing.T) {
				node, dir := startNode(t, kind), t.TempDir()
				kill := func() {
					holder := startGo(t, "root", env...)
					holder.hold(command{Target: dir + "/t"})
					holder.kill()
				}
				kill()
				a := node.do(command{Op: "acquire", Target: dir + "/t", StaleMs: 200, TimeoutMs: within(10000)})
				if a.Code != "file_lock_stale" {
					t.Errorf("Node by default: %v", a)
				}
				h := node.hold(command{Target: dir + "/t", StaleMs: 200, Recover: "yes"})
				node.release(h)
				kill()
				next := startGo(t, "root")
				h = next.hold(command{Target: dir + "/t", TimeoutMs: within(10000)})
				next.release(h)
				next.end()
				if left := swept(t, dir); left != nil {
					t.Errorf("left over: %v", left)
				}
			})
		}
	}
}

// content is a file's bytes and the number of its inode.
func content(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	return fmt.Sprintf("%d %s", inode(t, name), raw)
}
