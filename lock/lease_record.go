package lock

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"
)

// LeaseRecord is the JSON of a lease's record, for people and for peers that know
// no fence. It decides nothing but whose record it is, and who runs.
type LeaseRecord struct {
	LockID   string `json:"lockId"`
	Resource string `json:"resource"`
	OwnerID  string `json:"ownerId"`
	PID      int    `json:"pid"`
	Hostname string `json:"hostname"`
	BootID   string `json:"bootId"`
	// PIDNamespace and StartTime tell which process of that id is meant, in terms of
	// the holder's system; "" and 0 are unknown.
	PIDNamespace string `json:"pidNamespace,omitempty"`
	StartTime    uint64 `json:"startTime,string,omitempty"`
	// AcquiredAt and HeartbeatAt are by the holder's wall clock.
	AcquiredAt   time.Time `json:"acquiredAt"`
	HeartbeatAt  time.Time `json:"heartbeatAt"`
	TTLMs        int64     `json:"ttlMs"`
	FencingToken uint64    `json:"fencingToken"`
	// Fence is the epoch of the fence file that issued the token.
	Fence string `json:"fence"`
}

// stampLayout has one length for all times, so that a beat changes only digits.
const stampLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes times of equal length.
func (r LeaseRecord) MarshalJSON() ([]byte, error) {
	type plain LeaseRecord
	return json.Marshal(struct {
		plain
		AcquiredAt  string `json:"acquiredAt"`
		HeartbeatAt string `json:"heartbeatAt"`
	}{plain(r), r.AcquiredAt.UTC().Format(stampLayout), r.HeartbeatAt.UTC().Format(stampLayout)})
}

// TTL is how long the lease lasts after a beat.
func (r *LeaseRecord) TTL() time.Duration {
	return time.Duration(min(max(r.TTLMs, 0), MaxTTL.Milliseconds())) * time.Millisecond
}

// Expiry is when the lease runs out by the wall clocks of holder and reader. A
// beat from the future counts as one of now, so no record lasts for ever.
func (r *LeaseRecord) Expiry(now time.Time) time.Time {
	beat := r.HeartbeatAt
	if beat.After(now) {
		beat = now
	}
	return beat.Add(r.TTL())
}

// parseLease reads a record; ok is false for one that no lease has, a torn one
// too.
func parseLease(raw []byte) (r LeaseRecord, ok bool) {
	text, _, _ := splitRecord(raw)
	if json.Unmarshal(text, &r) != nil {
		return LeaseRecord{}, false
	}
	return r, r.LockID != "" && r.TTLMs > 0 && r.FencingToken > 0 && r.Fence != ""
}

// encode makes the bytes of the record. The token line is that of the fs-safe
// protocol and stays the same: by it peers tell the record from its successor.
func (r *LeaseRecord) encode(token [tokenBytes]byte) ([]byte, error) {
	text, err := encodeFitting(r)
	if err != nil {
		return nil, err
	}
	return appendRecord(text, nil, token), nil
}

// thisHolder fills in which process this is.
func (r *LeaseRecord) thisHolder() {
	r.PID, r.Hostname, r.BootID = os.Getpid(), hostName(), bootID()
	r.PIDNamespace = pidNamespace()
	r.StartTime, _ = processStartTime(r.PID)
}

// Liveness is what is known of a process by what a record says of it.
type Liveness uint8

const (
	LivenessUnknown Liveness = iota // of another host, boot or PID namespace, or not to be seen
	Running
	NotRunning
)

// String returns "unknown", "running" or "not running".
func (l Liveness) String() string { return [...]string{"unknown", "running", "not running"}[min(l, 2)] }

// Liveness judges by the process id only where that means the same process here
// as for the writer: equal host, boot id and PID namespace, all of them known. A
// process of that id that started at another time is another one.
func (r *LeaseRecord) Liveness() Liveness {
	m := r.mark()
	return m.liveness()
}

// processMark names a process; world is the hash of host, boot and namespace, zero
// where one of them is unknown. A fence slot has it, because a holder may die
// before it has a record.
type processMark struct {
	pid, start uint64
	world      [16]byte
}

func (r *LeaseRecord) mark() (m processMark) {
	if r.PID <= 0 || r.StartTime == 0 || r.BootID == "" || r.PIDNamespace == "" || r.Hostname == "" {
		return m
	}
	m.pid, m.start = uint64(r.PID), r.StartTime
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", r.Hostname, r.BootID, r.PIDNamespace))
	copy(m.world[:], sum[:])
	return m
}

func (m *processMark) liveness() Liveness {
	var here LeaseRecord
	here.thisHolder()
	if m.world == ([16]byte{}) || m.world != here.mark().world || m.pid > math.MaxInt32 {
		return LivenessUnknown
	}
	start, known := processStartTime(int(m.pid))
	switch {
	case !known:
		return LivenessUnknown
	case start != m.start:
		return NotRunning
	}
	return Running
}
