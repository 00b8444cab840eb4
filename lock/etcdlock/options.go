package etcdlock

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/caproot/caproot/lock"
)

// Bounds of Options.TTL. Servers raise a short one to one and a half of their
// election timeout, 2 s by default.
const (
	MinTTL = time.Second
	MaxTTL = 24 * time.Hour

	defaultTTL = 10 * time.Second
)

// Options are the options of one acquisition. All processes may choose their own.
type Options struct {
	// TTL is how long the lock outlives its holder: MinTTL to MaxTTL, rounded up to
	// seconds; 10 s if zero. It is renewed after a third of it, so servers that do
	// not answer for two thirds cost no lock.
	TTL time.Duration
	// Owner is shown to others, in the payload of their BusyError.
	Owner string
}

func (o *Options) complete() error {
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.TTL < MinTTL || o.TTL > MaxTTL {
		return fmt.Errorf("%w: TTL %v", lock.ErrOption, o.TTL)
	}
	return nil
}

func (o *Options) seconds() int64 { return int64((o.TTL + time.Second - 1) / time.Second) }

// record is the value of a key. Nothing is decided by it.
type record struct {
	Owner string `json:"owner,omitempty"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid"`
	// Process tells the processes of equal host names apart.
	Process string `json:"process"`
}

var thisProcess = rand.Text()

func (o *Options) record() ([]byte, error) {
	host, _ := os.Hostname() // for people
	return json.Marshal(record{Owner: o.Owner, Host: host, PID: os.Getpid(), Process: thisProcess})
}
