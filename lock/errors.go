package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/caproot/caproot"
)

// Causes that callers test for with errors.Is. None of them matches
// fs.ErrNotExist or fs.ErrExist.
var (
	// ErrBusy is returned when the attempts or the deadline ran out while
	// somebody else held the lock. The error is a *BusyError.
	ErrBusy = errors.New("lock is held by another")
	// ErrStale is returned when the record of a holder that cannot be proved
	// dead is older than Options.StaleAfter and was not approved for removal.
	// The error is a *StaleError.
	ErrStale = errors.New("lock record is stale, and its holder is not proved dead")
	// ErrNested is returned when the target is held by an ancestor of the call,
	// as its context tells: waiting would never end.
	ErrNested = errors.New("lock is held by an ancestor of this call")
	// ErrOrder is returned when a lock of a lower rank is acquired under one of
	// a higher.
	ErrOrder = errors.New("lock acquired against the declared order")
	// ErrCompromised is returned when the record is not this holder's any more,
	// or another process took the operating system's lock on it.
	ErrCompromised = errors.New("lock was compromised")
	// ErrRecord is returned when the name of the record holds something that no
	// holder makes: a link, a directory, a FIFO, a file with a second name, of
	// another owner, or too large. The error is a *RecordError.
	ErrRecord = errors.New("not a lock record")
	// ErrReleased is the cause of the contexts of a lock that was released.
	ErrReleased = errors.New("lock was released")
	// ErrLeaseLost is returned when a lease is not this holder's any more: it was
	// not renewed in time, or it was evicted. It matches ErrCompromised.
	ErrLeaseLost = fmt.Errorf("%w: lease was lost", ErrCompromised)
	// ErrFenced is returned for a change by a holder whose fencing token was
	// superseded, or who has released it.
	ErrFenced = errors.New("refused by the fence: the token was superseded")
	// ErrFenceLost is returned when the fence file of a token is missing, replaced
	// or damaged, or has a lower token. Nothing is permitted then.
	ErrFenceLost = errors.New("fence was lost")
	// ErrUnsupported is returned when the system or the file system cannot do
	// what an option asks for. It is caproot.ErrUnsupported.
	ErrUnsupported = caproot.ErrUnsupported
	// ErrTooLarge is returned for a record of more than MaxRecordBytes. It is
	// caproot.ErrTooLarge.
	ErrTooLarge = caproot.ErrTooLarge
	// ErrOption is returned for an option out of its range, before anything is
	// evaluated or made. It is caproot.ErrOption.
	ErrOption = caproot.ErrOption
)

// BusyError tells who held a lock that was not acquired.
type BusyError struct {
	LockPath string
	// Guard is set when it was the reclaim guard that stood in the way. A guard
	// without a witness is never removed by this package: its maker may live.
	Guard bool
	// Payload is that of the holder's record, nil when it was not readable or
	// is not a JSON object.
	Payload any
	// Own is set when this process is the holder.
	Own      bool
	Attempts int
	Waited   time.Duration
	// Err is the error of the context, nil when the attempts ran out.
	Err error
}

func (e *BusyError) Error() string {
	what := "record " + e.LockPath
	if e.Guard {
		what = "reclaim guard " + e.LockPath + guardSuffix
	}
	text := fmt.Sprintf("%v: %s, after %d attempts in %v", ErrBusy, what, e.Attempts, e.Waited.Round(time.Millisecond))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap makes a busy error match ErrBusy and the error of the context.
func (e *BusyError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrBusy}
	}
	return []error{ErrBusy, e.Err}
}

// StaleError describes a stale record that was left in place.
type StaleError struct {
	LockPath string
	Payload  any // nil when not a JSON object
	// Since is the holder's own createdAt, or the modification time of the
	// record where it has none.
	Since time.Time
	// Empty is set for a record without content, as a holder that died between
	// making and writing it leaves.
	Empty bool
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %s, of %s", ErrStale, e.LockPath, e.Since.UTC().Format(time.RFC3339))
}

// Is makes a stale error match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// RecordError tells what is wrong with what has the name of the record.
type RecordError struct {
	LockPath string
	Err      error // such as caproot.ErrSymlink, ErrSpecial, ErrHardlink, ErrTooLarge
}

func (e *RecordError) Error() string {
	return ErrRecord.Error() + ": " + e.LockPath + ": " + e.Err.Error()
}

// Unwrap makes a record error match ErrRecord and its cause.
func (e *RecordError) Unwrap() []error { return []error{ErrRecord, e.Err} }

// compromised is ErrCompromised with its particulars.
func compromised(lockPath string, why error) error {
	return fmt.Errorf("%w: %s: %w", ErrCompromised, lockPath, why)
}

// Code returns the stable short name of an error's cause: "busy", "stale",
// "nested", "order", "compromised", "lease-lost", "fenced", "fence-lost",
// "record", "option", "released", and for every other error what caproot.Code says.
func Code(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return caproot.Code(err)
}

var codes = []struct {
	err  error
	code string
}{
	{ErrFenced, "fenced"},
	{ErrFenceLost, "fence-lost"},
	{ErrLeaseLost, "lease-lost"},
	{ErrCompromised, "compromised"},
	{ErrNested, "nested"},
	{ErrOrder, "order"},
	{ErrStale, "stale"},
	{ErrBusy, "busy"},
	{ErrRecord, "record"},
	{ErrOption, "option"},
	{ErrReleased, "released"},
}
