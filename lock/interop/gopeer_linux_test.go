package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
	"github.com/caproot/caproot/lock"
)

// What a test takes away from the Go peer, and whether it stands still before
// each call of the lock protocol.
const (
	withoutEnv = "CAPROOT_PEER_WITHOUT"
	gateEnv    = "CAPROOT_PEER_GATE"
	keepEnv    = "CAPROOT_PEER_KEEP" // use lock.Options.KeepRecord
)

// goPeer is the Go side of peer.mjs.
type goPeer struct {
	mu        sync.Mutex
	out       *json.Encoder
	held      map[int]lock.Lock
	questions map[int]chan bool
	roots     map[string]*caproot.Root
}

func servePeer() int {
	if err := testfs.Without(os.Getenv(withoutEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p := &goPeer{
		out: json.NewEncoder(os.Stdout), held: map[int]lock.Lock{},
		questions: map[int]chan bool{}, roots: map[string]*caproot.Root{},
	}
	hello := answer{Done: true, Pid: os.Getpid()}
	if os.Getenv(gateEnv) != "" {
		listener, err := testfs.BuildGate()
		if err != nil {
			hello.Code, hello.Message = "gate", err.Error()
		}
		hello.Handle = listener
	}
	p.say(hello)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var c command
		if json.Unmarshal(lines.Bytes(), &c) != nil {
			return 1
		}
		if c.Op == "answer" {
			p.question(c.ID) <- c.Value
			continue
		}
		go p.serve(c)
	}
	return 0
}

func (p *goPeer) say(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Encode(a)
}

func (p *goPeer) question(id int) chan bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.questions[id] == nil {
		p.questions[id] = make(chan bool, 1)
	}
	return p.questions[id]
}

func (p *goPeer) serve(c command) {
	a, err := p.run(c)
	a.ID, a.Done = c.ID, true
	if err != nil {
		a.Code, a.Message = lock.Code(err), err.Error()
	}
	p.say(a)
}

func (p *goPeer) run(c command) (a answer, err error) {
	switch c.Op {
	case "acquire":
		l, err := p.acquire(c)
		if err != nil {
			return a, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		a.Handle = len(p.held) + 1
		p.held[a.Handle] = l
	case "release":
		return a, p.handle(c.Handle).Release()
	case "verify":
		err := p.handle(c.Handle).Verify(context.Background())
		a.Held = err == nil
		return a, err
	case "count":
		for ; a.Counted < c.N; a.Counted++ {
			if err := p.countOnce(c); err != nil {
				return a, err
			}
		}
	default:
		return a, fmt.Errorf("no operation %q", c.Op)
	}
	return a, nil
}

func (p *goPeer) handle(n int) lock.Lock {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[n]
}

func (p *goPeer) acquire(c command) (lock.Lock, error) {
	ctx := context.Background()
	if c.TimeoutMs != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*c.TimeoutMs*float64(time.Millisecond)))
		defer cancel()
	}
	o := p.options(c)
	if c.Kind == "raw" {
		return lock.AcquirePath(ctx, c.Target, o)
	}
	r, err := p.root(c.Root)
	if err != nil {
		return nil, err
	}
	target, err := filepath.Rel(c.Root, c.Target)
	if err != nil {
		return nil, err
	}
	if c.Kind == "advisory" {
		return lock.AcquireAdvisory(ctx, r, target, lock.AdvisoryOptions{})
	}
	return lock.Acquire(ctx, r, target, o)
}

func (p *goPeer) options(c command) lock.Options {
	o := lock.Options{
		StaleAfter: time.Duration(c.StaleMs * float64(time.Millisecond)),
		Retry:      lock.Retry{Min: time.Millisecond, Max: 10 * time.Millisecond, Factor: 2, Jitter: true},
		KeepRecord: os.Getenv(keepEnv) != "",
	}
	if c.Payload != nil {
		o.Payload = func(context.Context) (any, error) { return c.Payload, nil }
	}
	switch c.Recover {
	case "":
	case "ask":
		o.StaleRecovery = lock.RemoveIfUnchanged
		o.ShouldRemoveStale = func(s lock.StaleRecord) (bool, error) {
			p.say(answer{ID: c.ID, Event: "stale", Raw: string(s.Raw)})
			return <-p.question(c.ID), nil
		}
	default:
		o.StaleRecovery = lock.RemoveIfUnchanged
		o.ShouldRemoveStale = func(lock.StaleRecord) (bool, error) { return c.Recover == "yes", nil }
	}
	return o
}

func (p *goPeer) root(dir string) (*caproot.Root, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.roots[dir]; r != nil {
		return r, nil
	}
	r, err := caproot.Open(dir, caproot.Workspace())
	if err == nil {
		p.roots[dir] = r
	}
	return r, err
}

func (p *goPeer) countOnce(c command) error {
	l, err := p.acquire(c)
	if err != nil {
		return err
	}
	defer runtime.Gosched()
	return errors.Join(section(c.Counter), l.Release())
}

// section is the same as in peer.mjs: the file "inside" is made by whoever is
// in, and the counter loses an update when two are.
func section(counter string) error {
	inside, err := os.OpenFile(counter+".inside", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	inside.Close()
	data, err := os.ReadFile(counter)
	if err != nil {
		return err
	}
	value, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	runtime.Gosched()
	if err := os.WriteFile(counter, []byte(strconv.Itoa(value+1)), 0o600); err != nil {
		return err
	}
	return os.Remove(counter + ".inside")
}
