package crash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

// acquirer takes a lock of some kind, waiting until ctx ends.
type acquirer func(ctx context.Context, s *scene) (token uint64, release func() error, err error)

func lockWorks() []*work {
	sidecar := func(o lock.Options) acquirer {
		return func(ctx context.Context, s *scene) (uint64, func() error, error) {
			l, err := lock.Acquire(ctx, s.root, "t", o)
			if err != nil {
				return 0, nil, err
			}
			return 0, l.Release, nil
		}
	}
	return []*work{
		sectionWork("lock", sidecar(lock.Options{})),
		sectionWork("lock, fair", sidecar(lock.Options{Fair: true})),
		sectionWork("lock, advisory", advisory),
		sectionWork("lease", lease),
		reclaimWork(sidecar(lock.Options{})),
		stateWork("state", state.Options{Timeout: lock.Never}),
		stateWork("state, fenced", state.Options{Timeout: lock.Never, Lease: &lock.LeaseOptions{TTL: time.Minute}}),
	}
}

func advisory(ctx context.Context, s *scene) (uint64, func() error, error) {
	l, err := lock.AcquireAdvisory(ctx, s.root, "t", lock.AdvisoryOptions{})
	if err != nil {
		return 0, nil, err
	}
	return 0, l.Release, nil
}

// lease lasts longer than the campaign waits: who takes over has proof.
func lease(ctx context.Context, s *scene) (uint64, func() error, error) {
	l, err := lock.AcquireLease(ctx, s.root, "t", lock.LeaseOptions{TTL: time.Minute, Timeout: s.limit})
	if err != nil {
		return 0, nil, err
	}
	return l.Token(), l.Release, nil
}

// sectionWork is a victim and a bystander who count under a lock.
func sectionWork(name string, acquire acquirer) *work {
	return &work{
		name: name, lacks: []string{"", "tmpfile", "openat2"}, bystander: true,
		live: func(s *scene) error {
			return s.forever(func() error { return s.section(acquire, s.limit, nil) })
		},
		check: overlapped,
		restore: func(s *scene) error {
			return errors.Join(s.section(acquire, s.limit, s.counts), s.sweepLocks())
		},
		stays: evicted,
	}
}

// sweepLocks takes away what is left of records, of fence files, and of what is
// put under a lock, where they cannot be made without a name.
func (s *scene) sweepLocks() error {
	_, err := lock.Sweep(s.root, ".")
	return errors.Join(err, s.sweep(".", ".caproot/fence"))
}

func overlapped(s *scene) []string {
	if n := s.overlaps.Swap(0); n > 0 {
		return []string{fmt.Sprintf("%d times two in the section", n)}
	}
	return nil
}

// ledger is what a section reads and writes: the counts, and the last token.
type ledger [seats + 1]int64

// section counts for its seat under the lock. Before that see looks at the ledger.
func (s *scene) section(acquire acquirer, limit time.Duration, see func(ledger) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	token, release, err := acquire(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(s.count(token, see), release())
}

func (s *scene) count(token uint64, see func(ledger) error) error {
	oracle, err := s.oracle()
	if err != nil {
		return err
	}
	defer unix.Close(oracle)
	if unix.Flock(oracle, unix.LOCK_EX|unix.LOCK_NB) != nil {
		s.overlaps.Add(1)
	}
	f, err := os.OpenFile(s.base+"/ledger", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var cells [8 * len(ledger{})]byte
	f.ReadAt(cells[:], 0) // nothing yet is zero
	var l ledger
	if _, err := binary.Decode(cells[:], binary.LittleEndian, &l); err != nil {
		return err
	}
	if see != nil {
		if err := see(l); err != nil {
			return err
		}
	}
	if token != 0 && int64(token) <= l[seats] {
		return fmt.Errorf("token %d after %d", token, l[seats])
	}
	l[s.seat]++
	l[seats] = int64(token)
	time.Sleep(rand.N(100 * time.Microsecond))
	if _, err := binary.Encode(cells[:], binary.LittleEndian, &l); err != nil {
		return err
	}
	if _, err := f.WriteAt(cells[:], 0); err != nil {
		return err
	}
	s.done[s.seat].Add(1)
	return nil
}

// oracle is a file of which the kernel's lock tells whether another is in the
// section. The kernel closes the descriptors of a dying process from the highest
// down, so this one is free before any that a lock has.
func (s *scene) oracle() (int, error) {
	f, err := os.OpenFile(s.base+"/oracle", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 900)
}

// counts compares the ledger, under the lock, with what the workers told.
func (s *scene) counts(l ledger) error {
	for seat := range seats {
		told := s.done[seat].Load()
		if l[seat] != told && !(seat == victim && l[seat] == told+1) {
			return fmt.Errorf("lost update: seat %d has %d, and %d were done", seat, l[seat], told)
		}
	}
	s.done[victim].Store(l[victim])
	return nil
}

// reclaimWork is victims that die as holders, each of which takes the lock from
// the dead one before, and may be killed in that.
func reclaimWork(acquire acquirer) *work {
	return &work{
		name: "reclaim", lacks: []string{"", "", "tmpfile", "openat2"}, rest: 4, litter: 2, once: true,
		live: func(s *scene) error {
			s.ready()
			if _, _, err := acquire(context.Background(), s); err != nil {
				return err
			}
			select {}
		},
		restore: func(s *scene) error {
			err := errors.Join(s.section(acquire, s.limit, s.counts), s.sweepLocks())
			if exists(s.path("t.lock")) {
				err = errors.Join(err, errors.New("a record after the release"))
			}
			return err
		},
	}
}

// stateWork is read, change and write of a JSON file by two processes.
func stateWork(name string, o state.Options) *work {
	add := func(s *scene, see func(version) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), s.limit)
		defer cancel()
		err := state.UpdateContext(ctx, s.root, "state.json", func(_ context.Context, v *version) error {
			if see != nil {
				if err := see(*v); err != nil {
					return err
				}
			}
			v[s.seat]++
			return nil
		}, o)
		if err == nil {
			s.done[s.seat].Add(1)
		}
		return err
	}
	return &work{
		name: name, lacks: []string{"", "tmpfile", "openat2"}, bystander: true,
		live: func(s *scene) error {
			return s.forever(func() error { return add(s, nil) })
		},
		restore: func(s *scene) error {
			return errors.Join(add(s, s.agrees), s.sweepLocks())
		},
		stays: evicted,
	}
}

// evicted is the record of a dead holder whose successor died as it moved it away.
func evicted(name string) bool { return strings.Contains(name, ".lock.evict.") }
