package etcdlock

import (
	"errors"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// server is a cluster of one member on the loopback interface.
type server struct {
	t            *testing.T // nil in an example
	dir          string
	client, peer url.URL
	member       *embed.Etcd
}

func startServer(t *testing.T) *server {
	t.Helper()
	s, err := newServer(t.TempDir())
	must(t, err)
	s.t = t
	t.Cleanup(s.stop)
	s.start()
	return s
}

func newServer(dir string) (*server, error) {
	s := &server{dir: dir}
	for _, address := range []*url.URL{&s.client, &s.peer} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		*address = url.URL{Scheme: "http", Host: l.Addr().String()}
	}
	return s, nil
}

// StartCluster is for the examples.
func StartCluster() (endpoint string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return "", nil, err
	}
	s, err := newServer(dir)
	if err == nil {
		err = s.run()
	}
	return s.client.Host, func() {
		s.stop()
		os.RemoveAll(dir)
	}, err
}

func (s *server) start() {
	s.t.Helper()
	must(s.t, s.run())
}

func (s *server) run() error {
	c := embed.NewConfig()
	c.Dir = s.dir
	c.LogLevel = "fatal"
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{s.client}, []url.URL{s.client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{s.peer}, []url.URL{s.peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	// An election timeout of 200 ms leaves TTLs of one second as they are.
	c.TickMs, c.ElectionMs = 20, 200
	c.UnsafeNoFsync = true // of a disk that nobody takes the power from
	member, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	s.member = member
	select {
	case <-member.Server.ReadyNotify():
		return nil
	case <-member.Server.StopNotify():
		return errors.New("the server stopped")
	}
}

func (s *server) stop() {
	if s.member != nil {
		s.member.Close()
		s.member = nil
	}
}

func (s *server) connect() *clientv3.Client {
	s.t.Helper()
	client, err := connect(s.client.Host)
	must(s.t, err)
	s.t.Cleanup(func() { client.Close() })
	return client
}

func connect(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		MaxUnaryRetries: 2, BackoffWaitBetween: 10 * time.Millisecond,
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
