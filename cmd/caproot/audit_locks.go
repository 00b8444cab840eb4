package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

const (
	recordSuffix = ".lock"
	guardSuffix  = ".lock.reclaim"
	evictInfix   = ".lock.evict."

	privatePrefix = ".caproot-lock-"
)

// stageName has the exact form of a stage's name; the first group is there for
// one that is exchanged.
var stageName = regexp.MustCompile(`^\.caproot-stage-(of-\d+-(?:none|\d+\.\d+\.\d+\.\d+)-)?[A-Z2-7]{26}$`)

// settled is how old a file must be to be a remainder: its maker locks it only
// after it has made it.
const settled = time.Minute

// guard looks at the record or the guard of a lock.
func (a *audit) guard(e caproot.Entry, info fs.FileInfo) error {
	switch {
	case strings.HasSuffix(e.Name(), guardSuffix):
		return a.reclaimGuard(e.Path(), strings.TrimSuffix(e.Path(), guardSuffix), info)
	case strings.HasSuffix(e.Name(), recordSuffix) && info.Mode().IsRegular():
		return a.record(e.Path(), strings.TrimSuffix(e.Path(), recordSuffix))
	}
	return nil
}

func (a *audit) reclaimGuard(name, target string, info fs.FileInfo) error {
	st, err := lock.Inspect(context.Background(), a.r, target, lock.Options{})
	f := flaw{Finding: staleGuard, label: labelOf(name)}
	switch {
	case st.Guard == lock.Dead:
		f.Reason = "dead"
	case st.Guard == lock.Unknown && err == nil && a.now.Sub(info.ModTime()) > lockStale:
		f.Reason = "age"
	default:
		return a.lockError(err)
	}
	return a.tell(f)
}

// lockStale is the default of lock.Options.StaleAfter.
const lockStale = 30 * time.Second

func (a *audit) record(name, target string) error {
	ctx := context.Background()
	f := flaw{Finding: staleLock, label: labelOf(name)}
	lease, err := lock.InspectLease(ctx, a.r, target, lock.LeaseOptions{})
	if err != nil {
		return a.lockError(err)
	}
	if lease.Record != nil {
		switch lease.State {
		case lock.Dead:
			f.Reason = "dead"
		case lock.Unknown:
			f.Reason = "expired"
		default:
			return nil
		}
		return a.tell(f)
	}
	st, err := lock.Inspect(ctx, a.r, target, lock.Options{})
	switch {
	case err != nil:
		return a.lockError(err)
	case st.State == lock.Dead:
		f.Reason = "dead"
	case st.State == lock.Unknown && st.Stale && tellsHolder(st.Payload):
		f.Reason = "age"
	default:
		return nil
	}
	return a.tell(f)
}

// lockError passes over what is no record of a lock: a file of that name may be
// of anybody.
func (a *audit) lockError(err error) error {
	switch lock.Code(err) {
	case "", "record", "too-large", "name", "not-exist", "fence-lost":
		return nil
	}
	a.leave(err)
	return nil
}

// tellsHolder tells a record that proves nothing from the lock files of
// package managers, which are JSON too.
func tellsHolder(payload []byte) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return false
	}
	for _, field := range []string{"pid", "createdAt", "acquiredAt"} {
		if _, there := fields[field]; there {
			return true
		}
	}
	return false
}

// remains looks at what a process that died may have left.
func (a *audit) remains(e caproot.Entry, info fs.FileInfo) error {
	name := e.Name()
	var f flaw
	stage := stageName.FindStringSubmatch(name)
	switch {
	case stage != nil && stage[1] != "":
		f.Finding, f.Reason = leftoverStage, "exchange"
	case stage != nil:
		f.Finding = leftoverStage
	case strings.HasPrefix(name, privatePrefix), strings.Contains(name, evictInfix):
		f.Finding = leftoverRecord
	default:
		return nil
	}
	if a.now.Sub(info.ModTime()) < settled {
		return nil
	}
	f.label = labelOf(e.Path())
	file, err := a.r.Open(e.Path())
	if err != nil {
		return a.unless(err)
	}
	defer file.Close()
	free, err := unlocked(file)
	if err != nil {
		a.leave(&fs.PathError{Op: "lock", Path: e.Path(), Err: err})
	}
	if !free {
		return nil
	}
	return a.tell(f)
}
