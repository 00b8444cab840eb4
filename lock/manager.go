package lock

import (
	"context"
	"errors"
	"sort"
	"time"

	"github.com/caproot/caproot"
)

// Manager acquires locks in a domain. Managers of one domain know each other's
// locks: they share by Owner, wait in one order, and find nested acquisitions.
// Domains exclude each other only on disk, as processes do. A Manager is safe
// for concurrent use. The zero value is that of the domain "".
type Manager struct {
	shared   *domain
	defaults Options
}

func (m *Manager) domain() *domain {
	if m.shared == nil {
		return domainOf("")
	}
	return m.shared
}

var defaultManager = NewManager("")

// NewManager returns a manager of the domain of that name. The functions of
// the package work in the domain "".
func NewManager(domain string) *Manager { return &Manager{shared: domainOf(domain)} }

// WithDefaults returns a manager of the same domain that takes from o what a
// call does not give; see Options. LockPath and ShouldRemoveStale are never
// taken: a default of RemoveIfUnchanged still needs the approval of each call.
func (m *Manager) WithDefaults(o Options) *Manager { return &Manager{m.domain(), o} }

// Acquire is the package's Acquire in the manager's domain.
func (m *Manager) Acquire(ctx context.Context, r *caproot.Root, target string, o Options) (Lock, error) {
	return m.acquire(request{ctx: ctx, r: r, target: target, o: o}, true)
}

// TryAcquire is the package's TryAcquire in the manager's domain.
func (m *Manager) TryAcquire(ctx context.Context, r *caproot.Root, target string, o Options) (Lock, error) {
	return m.acquire(request{ctx: ctx, r: r, target: target, o: o}, false)
}

// AcquirePath is the package's AcquirePath in the manager's domain.
func (m *Manager) AcquirePath(ctx context.Context, path string, o Options) (Lock, error) {
	return m.acquirePath(ctx, path, o, true)
}

// TryAcquirePath is AcquirePath with one attempt and no waiting.
func (m *Manager) TryAcquirePath(ctx context.Context, path string, o Options) (Lock, error) {
	return m.acquirePath(ctx, path, o, false)
}

// HeldEntry describes a lock that a manager of the domain holds.
type HeldEntry struct {
	Target, LockPath string
	Owner            string
	Payload          []byte // the JSON of the record
	Metadata         any
	Since            time.Time
	// References counts the handles that share the lock.
	References int
	// Witness is set when the kernel would prove the death of this process.
	Witness bool
	// Lost is the error that monitoring found, nil while the lock stands.
	Lost error
}

// Held lists the locks of the domain, the oldest first.
func (m *Manager) Held() []HeldEntry {
	held := []HeldEntry{}
	for _, h := range m.domain().held() {
		held = append(held, h.entry())
	}
	sort.SliceStable(held, func(i, j int) bool { return held[i].Since.Before(held[j].Since) })
	return held
}

func (d *domain) held() []*hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	holds := make([]*hold, 0, len(d.holds))
	for h := range d.holds {
		holds = append(holds, h)
	}
	return holds
}

// Drain releases every lock of the domain, whoever has handles of it, and
// removes the records that KeepRecord kept. Locks whose release failed before
// are tried again. All failures are reported; what failed is still held.
func (m *Manager) Drain(ctx context.Context) error {
	return m.domain().drain(ctx, func(*hold) bool { return true })
}

func (d *domain) drain(ctx context.Context, chosen func(*hold) bool) error {
	var failed []error
	for _, h := range d.held() {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(failed, err)...)
		}
		if chosen(h) {
			_, err := h.release(true)
			failed = append(failed, err)
		}
	}
	return errors.Join(append(failed, d.dropKept())...)
}

// Reset forgets every lock of the domain, as if this process had died and its
// successor began: descriptors are closed, records stay, monitors stop, and no
// callback starts any more. Handles answer ErrCompromised. Acquisitions at work
// are left alone, with their guards.
func (m *Manager) Reset() {
	for _, h := range m.domain().held() {
		h.forget()
	}
}
