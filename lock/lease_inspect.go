package lock

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/caproot/caproot"
)

// LeaseStatus describes a lease at one moment, for people.
type LeaseStatus struct {
	// State is Free when nobody has it; Held while its holder is seen to run, or
	// its time is not over by the wall clocks; Dead when the holder is proved not
	// to run; else Unknown: a record that is not readable is no evidence of its
	// absence, and one of which the time is over may be of a holder that sleeps.
	State    State
	LockPath string
	// Token is the highest that was issued, 0 before the first.
	Token uint64
	// Record is nil when there is none or it is not a lease's.
	Record *LeaseRecord
	// Liveness is that of who has the fence, or who made the record.
	Liveness Liveness
	// Expires is when the lease runs out by the wall clocks; see LeaseRecord.Expiry.
	Expires time.Time
}

// InspectLease looks at the lease of a target without taking it, and changes
// nothing. A torn record is read once more.
func InspectLease(ctx context.Context, r *caproot.Root, target string, o LeaseOptions) (LeaseStatus, error) {
	q := request{ctx: ctx, r: r, target: target, o: Options{LockPath: o.LockPath}}
	lockPath, err := q.admit()
	if err != nil {
		return LeaseStatus{}, err
	}
	s := LeaseStatus{State: Free, LockPath: lockPath}
	if err := q.openPlace(lockPath); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return s, err
	}
	defer q.place.close()
	s.LockPath = q.place.lockPath
	a := leaseAcquisition{acquisition: acquisition{request: &q}, file: &fenceFile{root: r, name: fenceName(q.place.lockPath)}}
	found, err := a.lookWithoutFence()
	if err != nil {
		return s, err
	}
	defer found.close()
	s.judge(found, time.Now())
	return s, nil
}

// lookWithoutFence is look, also before there is a fence file.
func (a *leaseAcquisition) lookWithoutFence() (*observation, error) {
	exists, err := a.file.root.Lexists(a.file.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if exists {
		return a.look()
	}
	return a.lookAtRecord()
}

func (s *LeaseStatus) judge(o *observation, now time.Time) {
	s.Token = o.fence.token
	if o.isLease {
		s.Record, s.Liveness, s.Expires = &o.record, o.record.Liveness(), o.record.Expiry(now)
	}
	if o.fence.state == slotHeld {
		s.Liveness = o.fence.process.liveness()
	}
	switch {
	case o.file == nil && o.fence.state == slotFree:
		s.State = Free
	case s.Liveness == NotRunning:
		s.State = Dead
	case s.Liveness == Running || o.isLease && now.Before(s.Expires):
		s.State = Held
	default:
		s.State = Unknown
	}
}
