package lock

import "context"

// CleanUp releases the locks of the domain for the end of the program: each is
// tried once, those with RetainOnExit stay, and records that KeepRecord kept
// are removed. What changed hands meanwhile is left where it is. It does not
// wait for work that is under way: register it where that has stopped.
//
// Without it, a program that ends leaves its records, as one that is killed
// does, and the next contender finds their holder dead.
func (m *Manager) CleanUp(ctx context.Context) error {
	return m.domain.drain(ctx, func(h *hold) bool { return !h.o.RetainOnExit })
}
