package caproot

import "sync"

// errOverQuota ends the copy of a tree; what else is too large does not.
var errOverQuota = because(ErrTooLarge, "more bytes than may be copied")

// quota is how many bytes the files of a tree may have together. Nil is no limit.
type quota struct {
	mu      sync.Mutex
	settled sync.Cond // a share was given back or is final
	left    int64
	open    int // shares that may be given back
}

func newQuota(limit int64) *quota {
	if limit == 0 {
		return nil
	}
	q := &quota{left: limit}
	q.settled.L = &q.mu
	return q
}

// share is what one file has of a quota.
type share struct {
	of   *quota
	took int64
}

// begin takes size bytes. It waits for files at work beside this one that may yet
// fail, and give back what it needs.
func (s *share) begin(q *quota, size int64) error {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for size > q.left && q.open > 0 {
		q.settled.Wait()
	}
	if size > q.left {
		return errOverQuota
	}
	q.left -= size
	q.open++
	*s = share{q, size}
	return nil
}

// grow makes the share size bytes, before so many are written. It never waits:
// two that grow would wait for each other.
func (s *share) grow(size int64) error {
	if s.of == nil || size <= s.took {
		return nil
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if size-s.took > s.of.left {
		return errOverQuota
	}
	s.of.left -= size - s.took
	s.took = size
	return nil
}

// end gives back what a file that was not copied took.
func (s *share) end(copied bool) {
	if s.of == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if !copied {
		s.of.left += s.took
	}
	s.of.open--
	s.of.settled.Broadcast()
}
