package etcdlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caproot/caproot/exitcleanup"
	"github.com/caproot/caproot/lock"
)

// The tests with several processes run this test binary again. The variables name
// what the child does, and where the server is.
const (
	childVar    = "CAPROOT_ETCDLOCK_CHILD"
	endpointVar = "CAPROOT_ETCDLOCK_ENDPOINT"
)

var children = map[string]func(*clientv3.Client) error{
	"count": childCount,
	"hold":  childHold,
	"exit":  childExit,
}

func TestMain(m *testing.M) {
	if run := children[os.Getenv(childVar)]; run != nil {
		client, err := connect(os.Getenv(endpointVar))
		if err == nil {
			err = run(client)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func (s *server) child(scenario, dir string) *child {
	s.t.Helper()
	self, err := os.Executable()
	must(s.t, err)
	c := &child{t: s.t, cmd: exec.Command(self)}
	c.cmd.Dir = dir
	c.cmd.Env = append(os.Environ(), childVar+"="+scenario, endpointVar+"="+s.client.Host)
	c.cmd.Stderr = os.Stderr
	c.stdin, err = c.cmd.StdinPipe()
	must(s.t, err)
	out, err := c.cmd.StdoutPipe()
	must(s.t, err)
	c.lines = bufio.NewReader(out)
	must(s.t, c.cmd.Start())
	s.t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

func (c *child) line() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	must(c.t, err)
	return strings.TrimSpace(line)
}

func (c *child) signal(sig syscall.Signal) {
	c.t.Helper()
	must(c.t, c.cmd.Process.Signal(sig))
}

const rounds = 20

// childCount adds to a counter in a way that loses updates without exclusion.
func childCount(client *clientv3.Client) error {
	for range rounds {
		err := With(context.Background(), client, "counter", Options{TTL: 30 * time.Second}, func(context.Context) error {
			if err := os.Mkdir("inside", 0o700); err != nil {
				return err
			}
			text, err := os.ReadFile("counter")
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			n, _ := strconv.Atoi(string(text))
			if err := os.WriteFile("counter", []byte(strconv.Itoa(n+1)), 0o600); err != nil {
				return err
			}
			return os.Remove("inside")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// childHold holds the lock until it is lost. Then it tries to use it all the same.
func childHold(client *clientv3.Client) error {
	l, err := Acquire(context.Background(), client, "held", Options{TTL: 2 * time.Second})
	if err != nil {
		return err
	}
	fmt.Println(l.Token())
	<-l.Lost()
	answer, err := client.Txn(context.Background()).If(l.Held()).Then(clientv3.OpPut("data", "late")).Commit()
	if err != nil {
		return err
	}
	fmt.Println(lock.Code(l.Verify(context.Background())), lock.Code(l.Release()), answer.Succeeded)
	return nil
}

func childExit(client *clientv3.Client) error {
	exitcleanup.Main(func(ctx context.Context) int {
		if _, err := Acquire(ctx, client, "held", Options{TTL: time.Hour}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	})
	return nil
}
