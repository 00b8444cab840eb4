package lock

import (
	"cmp"
	"time"
)

// verify is Lock.Verify.
func (h *hold) verify() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verifyLocked()
}

func (h *hold) verifyLocked() error {
	if h.gone {
		return cmp.Or(h.outcome, ErrReleased)
	}
	err := h.record.is(&h.place, h.place.leaf)
	if err == nil && h.record.witness {
		err = relock(h.record.file)
	}
	return h.judge(err)
}

// judge tells a change of the record from a failure to look at it.
func (h *hold) judge(err error) error {
	if err == nil {
		return nil
	}
	if err == errLocked || gone(err) {
		return compromised(h.place.lockPath, err)
	}
	return err
}

// monitor starts what watches over the lock while it is held.
func (h *hold) monitor() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = h.since
	if h.o.StaleAfter != Never {
		refreshes.arm(h.fresh.Add(h.refreshInterval()))
	}
	if h.o.CheckInterval > 0 {
		h.check = time.AfterFunc(h.o.CheckInterval, h.checkNow)
	}
}

// checkNow is one check of the monitor. The next is due only after it.
func (h *hold) checkNow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone || h.why != nil {
		return
	}
	if err := h.verifyLocked(); err != nil {
		h.lose(err)
		return
	}
	h.check.Reset(h.o.CheckInterval)
}

// lose reports the loss, once. It needs mu.
func (h *hold) lose(err error) {
	h.why = err
	h.stopTimers()
	close(h.lost)
	h.endContexts(err)
	if h.o.OnCompromised != nil {
		go h.o.OnCompromised(err)
	}
}

func (h *hold) stopTimers() {
	if h.check != nil {
		h.check.Stop()
	}
}

// endContexts needs mu.
func (h *hold) endContexts(cause error) {
	for l := range h.told {
		l.ctxs.end(cause)
	}
}

// onLoss has the contexts of the handle end when the lock is lost.
func (h *hold) onLoss(l *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != nil {
		l.ctxs.end(h.why)
		return
	}
	if h.told == nil {
		h.told = map[*handle]struct{}{}
	}
	h.told[l] = struct{}{}
}

func (h *hold) offLoss(l *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.told, l)
}
