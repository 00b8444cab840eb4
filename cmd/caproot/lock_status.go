package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

type lockStatusCommand struct {
	jsonFlag
	File string `arg:"" help:"What is locked."`
}

// lockState is the JSON form of the status of a lock.
type lockState struct {
	State     string          `json:"state"`           // free, held, dead, unknown
	Proof     string          `json:"proof,omitempty"` // of held and dead
	Lock      label           `json:"lock"`
	Since     string          `json:"since,omitempty"`
	Stale     bool            `json:"stale"`
	Trusted   bool            `json:"trusted"`
	Guard     string          `json:"guard"`
	Holder    json.RawMessage `json:"holder,omitempty"`
	HolderB64 []byte          `json:"holder_b64,omitempty"` // what is no JSON
	Token     uint64          `json:"token,omitempty"`      // of a lease
	Expires   string          `json:"expires,omitempty"`    // of a lease, by the wall clocks
}

// proofs tell what the verdict on a holder rests on.
var proofs = map[lock.State]string{
	lock.Held: "the kernel keeps its lock on the record",
	lock.Dead: "the kernel dropped its lock on the record",
}

// Run is called by kong.
func (c *lockStatusCommand) Run(s *session) error {
	r, name, err := openBeside(c.File)
	if err != nil {
		return err
	}
	defer r.Close()
	st, err := lock.Inspect(context.Background(), r, name, lock.Options{})
	if err != nil {
		return err
	}
	l := newLockState(st)
	if err := l.addLease(r, name); err != nil {
		return err
	}
	if c.JSON {
		err = s.writeJSON(l)
	} else {
		err = s.describeLock(l, st)
	}
	if err != nil {
		return err
	}
	if l.State == lock.Free.String() && st.Guard == lock.Free {
		return nil
	}
	return status(exitNo)
}

func newLockState(st lock.Status) lockState {
	l := lockState{
		State: st.State.String(), Proof: proofs[st.State], Lock: labelOf(st.LockPath), Stale: st.Stale, Trusted: st.Trusted,
		Guard: st.Guard.String(),
	}
	if st.State != lock.Free {
		l.Since = st.Since.UTC().Format(time.RFC3339Nano)
	}
	var compact bytes.Buffer
	switch {
	case len(st.Payload) == 0:
	case utf8.Valid(st.Payload) && json.Compact(&compact, st.Payload) == nil:
		l.Holder = compact.Bytes()
	default:
		l.HolderB64 = st.Payload
	}
	return l
}

// addLease judges the record as a lease's, if it is one.
func (l *lockState) addLease(r *caproot.Root, name string) error {
	lease, err := lock.InspectLease(context.Background(), r, name, lock.LeaseOptions{})
	if err != nil || lease.Record == nil {
		return err
	}
	l.State, l.Token, l.Expires = lease.State.String(), lease.Token, lease.Expires.UTC().Format(time.RFC3339Nano)
	switch {
	case lease.State == lock.Dead:
		l.Proof = "its process does not run any more"
	case lease.Liveness == lock.Running:
		l.Proof = "its process runs"
	case lease.State == lock.Held:
		l.Proof = "it was renewed within its time"
	}
	return nil
}

func (s *session) describeLock(l lockState, st lock.Status) error {
	text := l.State
	if l.Since != "" {
		text += " since " + l.Since
	}
	switch {
	case l.Proof != "":
		text += ": " + l.Proof
	case l.Expires != "":
		text += ": its time is over, and nothing proves whether its holder lives"
	case st.State == lock.Unknown && st.Stale:
		text += ": nothing proves whether its holder lives; stale by age"
	case st.State == lock.Unknown:
		text += ": nothing proves whether its holder lives"
	}
	if l.Expires != "" {
		text += "; token " + strconv.FormatUint(l.Token, 10) + ", runs out at " + l.Expires
	}
	if len(l.Holder) > 0 {
		text += "; holder " + string(l.Holder)
	}
	if st.State != lock.Free && !st.Trusted {
		text += "; locks of this file system prove nothing, so records are removed only by consent, under the guard"
	}
	if st.Guard != lock.Free {
		text += "; a reclaim is under way: " + l.Guard
	}
	_, err := fmt.Fprintln(s.out, printable(text))
	return err
}

type lockReclaimCommand struct {
	jsonFlag
	File string `arg:"" help:"What is locked."`
}

// Run is called by kong.
func (c *lockReclaimCommand) Run(s *session) error {
	r, name, err := openBeside(c.File)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := reclaim(r, name); err != nil || !c.JSON {
		return err
	}
	return s.writeJSON(outcome{"lock-reclaim", labelOf(c.File)})
}

// reclaim takes the lock of a holder that is proved dead, and gives it back: the
// record goes by the same rules as for every contender.
func reclaim(r *caproot.Root, name string) error {
	ctx := context.Background()
	lease, err := lock.InspectLease(ctx, r, name, lock.LeaseOptions{})
	if err != nil {
		return err
	}
	if lease.Record != nil {
		return reclaimLease(ctx, r, name, lease)
	}
	st, err := lock.Inspect(ctx, r, name, lock.Options{})
	switch {
	case err != nil:
		return err
	case st.State == lock.Free && st.Guard == lock.Free:
		return refusal{"not-exist", "there is no record"}
	case st.State == lock.Held || st.Guard == lock.Held:
		return refusal{"busy", "its holder lives: " + proofs[lock.Held]}
	case st.State == lock.Unknown || st.Guard == lock.Unknown:
		return refusal{"stale", "nothing proves that its holder is dead"}
	}
	held, err := lock.TryAcquire(ctx, r, name, lock.Options{})
	if err != nil {
		return err
	}
	return held.Release()
}

func reclaimLease(ctx context.Context, r *caproot.Root, name string, lease lock.LeaseStatus) error {
	switch lease.State {
	case lock.Held:
		return refusal{"busy", "its holder runs, or its time is not over"}
	case lock.Unknown:
		return refusal{"stale", "nothing proves that its holder is dead"}
	}
	held, err := lock.AcquireLease(ctx, r, name, lock.LeaseOptions{})
	if err != nil {
		return err
	}
	return held.Release()
}
