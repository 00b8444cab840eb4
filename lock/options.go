package lock

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Options are the options of one acquisition, or the defaults of a Manager. The
// zero value waits without limit for an exclusive lock with a default payload.
//
// A field counts as given when it is not zero, or when Set names it. What is
// not given comes from the defaults of the Manager, or from this package.
type Options struct {
	// LockPath is the name of the record below the root, or, with AcquirePath, a
	// path. Empty is the target with ".lock" added. An explicit one may guard a
	// target that is missing or outside of the root.
	LockPath string
	// Owner makes acquisitions of equal owners on one target and domain share one
	// lock, counted. Empty shares with nobody.
	Owner string
	// Payload is called for each attempt; what it returns becomes the JSON of the
	// record. Its context ends with the call's and marks the target as held. Its
	// error ends the acquisition and comes back unchanged. Nil writes process
	// id, host and time. A field "createdAt" makes peers of the fs-safe protocol
	// judge the age by it, however long the lock is held: leave it out of locks
	// that are held longer than StaleAfter.
	Payload func(ctx context.Context) (any, error)
	// Parse reads the JSON of another holder's record for callbacks and StaleError.
	// It gets a copy of at most MaxRecordBytes. Its error ends the acquisition and
	// comes back unchanged. Nil gives a map for an object and nil for all else.
	Parse func(record []byte) (any, error)
	// StaleAfter is the age at which a record without a witness is stale, and
	// three times the interval at which one's own is refreshed. Zero is 30 s,
	// Never turns both off.
	StaleAfter time.Duration
	// StaleRecovery says what becomes of a stale record.
	StaleRecovery Recovery
	// ShouldReclaim replaces the rule of StaleAfter. It is asked only about
	// records without a witness.
	ShouldReclaim func(StaleRecord) (bool, error)
	// ShouldRemoveStale approves the removal of one stale record, under the
	// guard. Without it, and it does not come from defaults, nothing is removed.
	ShouldRemoveStale func(StaleRecord) (bool, error)
	// Retry bounds the attempts and paces them where the kernel cannot tell the
	// end of a wait.
	Retry Retry
	// Metadata is shown by Manager.Held and written nowhere.
	Metadata any
	// RetainOnExit keeps the record when the program ends in order.
	RetainOnExit bool
	// OnCompromised is called once, on a goroutine of its own, when monitoring
	// finds the lock lost.
	OnCompromised func(error)
	// CheckInterval is the time between two checks of the monitor, 1 ms to
	// 2^31-1 ms; zero does not monitor.
	CheckInterval time.Duration
	// Rank declares an order: under a lock of a rank, known by the context, a
	// lock of a lower one is ErrOrder. Zero has no rank.
	Rank int
	// Fair queues with other processes that set it, first come first served. It
	// leaves a small file, the record's name with ".queue" added, for good.
	// It returns ErrUnsupported where the system has no open-file-description locks.
	Fair bool
	// Durable flushes the content of the record, so that a loss of power leaves no
	// empty one: before it has its name, and where locks prove nothing right after
	// that. Its name is not flushed: after a loss of power the record may be gone,
	// or one that was removed be back, and in both cases no holder runs here.
	Durable bool
	// KeepRecord keeps the file of the record between acquisitions, under a
	// hidden name beside it, and moves it in and out: about half the cost. The
	// file stays until Manager.Drain or Sweep. It needs the right Move. Not for
	// targets that Node processes lock through an asynchronous Root of fs-safe:
	// those may fail, not wait, when a record that they read is moved away.
	KeepRecord bool
	// Set names fields that count as given although they are zero.
	Set Fields
}

// Never as StaleAfter makes no record stale.
const Never time.Duration = math.MaxInt64

// MaxRecordBytes is the greatest size of a record with all its lines.
const MaxRecordBytes = 1 << 20

const (
	defaultStaleAfter = 30 * time.Second
	defaultMin        = 50 * time.Millisecond
	defaultMax        = time.Second
	minCheck          = time.Millisecond
	maxPause          = math.MaxInt32 * time.Millisecond
)

// Recovery says what becomes of a stale record.
type Recovery uint8

const (
	// FailClosed ends the acquisition with ErrStale.
	FailClosed Recovery = iota
	// RemoveIfUnchanged removes it under the guard, if ShouldRemoveStale approves
	// and neither bytes nor identity changed meanwhile.
	RemoveIfUnchanged
)

// Retry paces an acquisition. Its zero value is 50 ms to 1 s without limit.
type Retry struct {
	// Attempts bounds how often the record is looked at; 0 does not.
	Attempts int
	// Min and Max bound the delay between two looks; zero is 50 ms and 1 s.
	Min, Max time.Duration
	// Factor multiplies the delay after each look; zero is 1.
	Factor float64
	// Jitter makes each delay up to twice as long, but not longer than Max.
	Jitter bool
}

// Fields is a set of fields of Options.
type Fields uint16

const (
	SetOwner Fields = 1 << iota
	SetPayload
	SetParse
	SetStaleAfter
	SetStaleRecovery
	SetShouldReclaim
	SetRetry
	SetMetadata
	SetRetainOnExit
	SetOnCompromised
	SetCheckInterval
	SetRank
	SetFair
	SetDurable
	SetKeepRecord

	allFields = SetKeepRecord<<1 - 1
)

// StaleRecord is what a callback is told of a record. It is a snapshot: the
// record may have changed by the time the callback runs, and is compared again
// after it.
type StaleRecord struct {
	LockPath, Target string
	// Raw has the bytes of the record.
	Raw []byte
	// Payload is what Parse made of them, nil when they are no JSON object.
	Payload any
	ModTime time.Time
	// StaleAfter is that of the options, Now the time of the judgement.
	StaleAfter time.Duration
	Now        time.Time
	// HeldByThisProcess is set when a manager of this process holds the record.
	// Such a record is never removed, whatever a callback says.
	HeldByThisProcess bool
}

// over returns o with everything that it does not give taken from d.
func (o Options) over(d *Options) Options {
	given := func(f Fields, zero bool) bool { return !zero || o.Set&f != 0 }
	if !given(SetOwner, o.Owner == "") {
		o.Owner = d.Owner
	}
	if !given(SetPayload, o.Payload == nil) {
		o.Payload = d.Payload
	}
	if !given(SetParse, o.Parse == nil) {
		o.Parse = d.Parse
	}
	if !given(SetStaleAfter, o.StaleAfter == 0) {
		o.StaleAfter, o.Set = d.StaleAfter, o.Set|d.Set&SetStaleAfter
	}
	if !given(SetStaleRecovery, o.StaleRecovery == 0) {
		o.StaleRecovery = d.StaleRecovery
	}
	if !given(SetShouldReclaim, o.ShouldReclaim == nil) {
		o.ShouldReclaim = d.ShouldReclaim
	}
	if !given(SetRetry, o.Retry == Retry{}) {
		o.Retry = d.Retry
	}
	if !given(SetMetadata, o.Metadata == nil) {
		o.Metadata = d.Metadata
	}
	if !given(SetRetainOnExit, !o.RetainOnExit) {
		o.RetainOnExit = d.RetainOnExit
	}
	if !given(SetOnCompromised, o.OnCompromised == nil) {
		o.OnCompromised = d.OnCompromised
	}
	if !given(SetCheckInterval, o.CheckInterval == 0) {
		o.CheckInterval = d.CheckInterval
	}
	if !given(SetRank, o.Rank == 0) {
		o.Rank = d.Rank
	}
	if !given(SetFair, !o.Fair) {
		o.Fair = d.Fair
	}
	if !given(SetDurable, !o.Durable) {
		o.Durable = d.Durable
	}
	if !given(SetKeepRecord, !o.KeepRecord) {
		o.KeepRecord = d.KeepRecord
	}
	return o
}

// Check returns ErrOption for an option out of its range, as Acquire does.
func (o Options) Check() error { return o.complete() }

// complete refuses what is out of range and fills in the rest.
func (o *Options) complete() error {
	bad := func(field string, value any) error { return fmt.Errorf("%w: %s %v", ErrOption, field, value) }
	r := &o.Retry
	switch {
	case o.Set&^allFields != 0:
		return bad("Set", o.Set&^allFields)
	case o.StaleAfter < 0:
		return bad("StaleAfter", o.StaleAfter)
	case o.StaleRecovery > RemoveIfUnchanged:
		return bad("StaleRecovery", o.StaleRecovery)
	case o.CheckInterval != 0 && (o.CheckInterval < minCheck || o.CheckInterval > maxPause):
		return bad("CheckInterval", o.CheckInterval)
	case r.Attempts < 0:
		return bad("Retry.Attempts", r.Attempts)
	case r.Min < 0 || r.Min > maxPause:
		return bad("Retry.Min", r.Min)
	case r.Max < 0 || r.Max > maxPause:
		return bad("Retry.Max", r.Max)
	case r.Factor != 0 && !(r.Factor >= 1) || math.IsInf(r.Factor, 0):
		return bad("Retry.Factor", r.Factor)
	}
	if o.StaleAfter == 0 && o.Set&SetStaleAfter == 0 {
		o.StaleAfter = defaultStaleAfter
	}
	if r.Factor == 0 {
		r.Factor = 1
	}
	if r.Max == 0 {
		r.Max = max(defaultMax, r.Min)
	}
	if r.Min == 0 {
		r.Min = min(defaultMin, r.Max)
	}
	if r.Min > r.Max {
		return bad("Retry.Min greater than Max", r.Min)
	}
	return nil
}
