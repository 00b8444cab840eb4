package lock

import (
	"sync"
	"time"
)

// refreshes keeps the times of modification of all records fresh from one
// timer: one for each lock would wake the runtime's poller with each acquisition.
var refreshes refresher

type refresher struct {
	mu    sync.Mutex
	timer *time.Timer
	due   time.Time // zero while the timer is not set
	// busy has the devices whose records are being refreshed. One that hangs
	// must not keep the others waiting.
	busy map[uint64]bool
}

// arm sees to a run at the time due, or before.
func (k *refresher) arm(due time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.due.IsZero() && !due.Before(k.due) {
		return
	}
	k.due = due
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Until(due), k.run)
		return
	}
	k.timer.Reset(time.Until(due))
}

// run refreshes what is due, device by device, and arms the timer for the rest.
func (k *refresher) run() {
	devices := registry.byDevice()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.due = time.Time{}
	for dev, holds := range devices {
		if k.busy[dev] {
			continue
		}
		if k.busy == nil {
			k.busy = map[uint64]bool{}
		}
		k.busy[dev] = true
		go k.refresh(dev, holds)
	}
}

func (k *refresher) refresh(dev uint64, holds []*hold) {
	var next time.Time
	for _, h := range holds {
		if due := h.refresh(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	k.mu.Lock()
	delete(k.busy, dev)
	k.mu.Unlock()
	if !next.IsZero() {
		k.arm(next)
	}
}

// byDevice returns the holds of this process, by the device of their records.
func (r *holdRegistry) byDevice() map[uint64][]*hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	devices := map[uint64][]*hold{}
	for id, h := range r.holds {
		devices[id.dev] = append(devices[id.dev], h)
	}
	return devices
}

// refresh keeps the record fresh for peers that judge by its time of
// modification, and returns when it is due again, or zero for never.
func (h *hold) refresh() (due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone || h.why != nil || h.o.StaleAfter == Never {
		return due
	}
	if due = h.fresh.Add(h.refreshInterval()); time.Now().Before(due) {
		return due
	}
	now := time.Now()
	o, err := look(h.record.file)
	if err == nil && o.id != h.record.id {
		err = compromised(h.place.lockPath, errNotOurs)
	}
	if err == nil {
		err = touch(h.record.file, now)
	}
	if err != nil {
		h.lose(err)
		return time.Time{}
	}
	h.fresh = now
	return now.Add(h.refreshInterval())
}

func (h *hold) refreshInterval() time.Duration { return max(h.o.StaleAfter/3, time.Millisecond) }
