package etcdlock

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestTwoProcesses(t *testing.T) {
	s := startServer(t)
	dir := t.TempDir()
	a, b := s.child("count", dir), s.child("count", dir)
	for _, c := range []*child{a, b} {
		must(t, c.cmd.Wait())
	}
	text, err := os.ReadFile(filepath.Join(dir, "counter"))
	if err != nil || string(text) != strconv.Itoa(2*rounds) {
		t.Fatalf("counter %q, %v", text, err)
	}
}

// TestPausedHolder is case 147: the holder stands still past its TTL, and goes on
// after a successor has written.
func TestPausedHolder(t *testing.T) {
	s := startServer(t)
	client := s.connect()
	c := s.child("hold", t.TempDir())
	token, err := strconv.ParseUint(c.line(), 10, 64)
	must(t, err)
	c.signal(syscall.SIGSTOP)
	l, err := Acquire(context.Background(), client, "held", Options{TTL: time.Minute})
	must(t, err)
	if l.Token() <= token {
		t.Errorf("token %d after %d", l.Token(), token)
	}
	answer, err := client.Txn(context.Background()).If(l.Held()).Then(clientv3.OpPut("data", "successor")).Commit()
	if err != nil || !answer.Succeeded {
		t.Fatal(answer, err)
	}
	c.signal(syscall.SIGCONT)
	if got, want := c.line(), "lease-lost lease-lost false"; got != want {
		t.Errorf("the paused holder: %s, want %s", got, want)
	}
	must(t, l.Verify(context.Background()))
	data, err := client.Get(context.Background(), "data")
	if err != nil || string(data.Kvs[0].Value) != "successor" {
		t.Fatal(data, err)
	}
	must(t, l.Release())
}

func TestKilledHolder(t *testing.T) {
	s := startServer(t)
	client := s.connect()
	c := s.child("hold", t.TempDir())
	token, err := strconv.ParseUint(c.line(), 10, 64)
	must(t, err)
	c.signal(syscall.SIGKILL)
	l, err := Acquire(context.Background(), client, "held", Options{TTL: time.Minute})
	must(t, err)
	if l.Token() <= token {
		t.Errorf("token %d after %d", l.Token(), token)
	}
	must(t, l.Release())
}

// TestExit has a TTL that nobody can wait for.
func TestExit(t *testing.T) {
	s := startServer(t)
	client := s.connect()
	c := s.child("exit", t.TempDir())
	must(t, c.cmd.Wait())
	l, err := TryAcquire(context.Background(), client, "held", Options{})
	must(t, err)
	must(t, l.Release())
}
