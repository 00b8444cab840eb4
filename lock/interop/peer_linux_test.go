package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const peerEnv = "CAPROOT_LOCK_PEER"

// command is what a test asks of a peer; both peers read the same JSON.
type command struct {
	ID        int            `json:"id"`
	Op        string         `json:"op"`
	Kind      string         `json:"kind,omitempty"` // raw, root, sync (Node), advisory (Go)
	Root      string         `json:"root,omitempty"`
	Target    string         `json:"target,omitempty"`
	LockPath  string         `json:"lockPath,omitempty"`
	StaleMs   float64        `json:"staleMs,omitempty"`
	TimeoutMs *float64       `json:"timeoutMs,omitempty"`
	Recover   string         `json:"recover,omitempty"` // "yes", or "ask" for an event
	Payload   map[string]any `json:"payload,omitempty"`
	Handle    int            `json:"handle,omitempty"`
	N         int            `json:"n,omitempty"`
	Counter   string         `json:"counter,omitempty"`
	Value     bool           `json:"value"`
}

// answer is what a peer says: an event on the way, or that it is done.
type answer struct {
	ID       int    `json:"id"`
	Done     bool   `json:"done"`
	Event    string `json:"event,omitempty"`
	Raw      string `json:"raw,omitempty"`
	Handle   int    `json:"handle,omitempty"`
	LockPath string `json:"lockPath,omitempty"`
	Held     bool   `json:"held,omitempty"`
	Counted  int    `json:"counted,omitempty"` // sections until it was done or failed
	Code     string `json:"code,omitempty"`
	Message  string `json:"message,omitempty"`
	Pid      int    `json:"pid,omitempty"`
	Version  string `json:"version,omitempty"`
}

// peer is a process that uses locks on our command.
type peer struct {
	t       *testing.T
	kind    string // of its acquisitions
	process *exec.Cmd
	input   io.WriteCloser
	// listener is the number of the Go peer's gate, if it was started with one.
	listener int

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan answer
}

// startGo starts the test binary as a peer; env may take things away from it.
func startGo(t *testing.T, kind string, env ...string) *peer {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self)
	c.Env = append(append(os.Environ(), peerEnv+"=1"), env...)
	return start(t, kind, c)
}

func startNode(t *testing.T, kind string) *peer {
	t.Helper()
	return start(t, kind, exec.Command("node", filepath.Join(nodePeer(t), "peer.mjs")))
}

func start(t *testing.T, kind string, c *exec.Cmd) *peer {
	t.Helper()
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	must(t, err)
	output, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	p := &peer{t: t, kind: kind, process: c, input: input, waiting: map[int]chan answer{0: make(chan answer, 1)}}
	t.Cleanup(func() { p.kill() })
	go p.listen(output)
	hello := p.next(0)
	if !hello.Done || hello.Code != "" {
		t.Fatalf("the %s peer did not come up: %v", kind, hello)
	}
	p.listener = hello.Handle
	return p
}

// listen hands each line to the call it belongs to. When the peer is gone
// every call in flight gets a zero answer.
func (p *peer) listen(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		p.mu.Lock()
		to := p.waiting[a.ID]
		p.mu.Unlock()
		if to != nil {
			to <- a
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.waiting {
		close(to)
	}
	p.waiting = nil
}

func (p *peer) next(id int) answer {
	p.mu.Lock()
	from := p.waiting[id]
	p.mu.Unlock()
	if from != nil {
		if a, ok := <-from; ok {
			return a
		}
	}
	return answer{Code: "gone", Message: "the peer is gone"}
}

// begin sends a command and returns its id, to be awaited with next.
func (p *peer) begin(c command) int {
	p.t.Helper()
	if c.Kind == "" {
		c.Kind = p.kind
	}
	if c.Root == "" && c.Target != "" {
		c.Root = filepath.Dir(c.Target)
	}
	p.mu.Lock()
	p.nextID++
	c.ID = p.nextID
	if p.waiting != nil {
		p.waiting[c.ID] = make(chan answer, 16)
	}
	p.mu.Unlock()
	p.send(c)
	return c.ID
}

func (p *peer) send(c command) {
	p.t.Helper()
	line, err := json.Marshal(c)
	must(p.t, err)
	p.input.Write(append(line, '\n')) // the answer tells when the peer is gone
}

// do sends a command and waits until it is done.
func (p *peer) do(c command) answer {
	p.t.Helper()
	return p.next(p.begin(c))
}

// hold acquires and fails the test if it does not.
func (p *peer) hold(c command) int {
	p.t.Helper()
	c.Op = "acquire"
	a := p.do(c)
	if a.Code != "" || a.Handle == 0 {
		p.t.Fatalf("%s acquire: %s %s", p.kind, a.Code, a.Message)
	}
	return a.Handle
}

func (p *peer) release(handle int) {
	p.t.Helper()
	if a := p.do(command{Op: "release", Handle: handle}); a.Code != "" || !a.Done {
		p.t.Fatalf("%s release: %s %s", p.kind, a.Code, a.Message)
	}
}

// end lets the peer end in order and waits for that.
func (p *peer) end() {
	p.input.Close()
	p.process.Wait()
}

// kill ends the peer with SIGKILL and waits until it is gone.
func (p *peer) kill() {
	p.process.Process.Kill()
	p.process.Wait()
}

func (a answer) String() string { return fmt.Sprintf("{%s %s %s}", a.Event, a.Code, a.Message) }
