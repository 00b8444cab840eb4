package caproot

import "sync"

// refunds count what a removal takes away: names, and the content of files that
// have none left.
type refunds struct {
	mu   sync.Mutex
	gone Budget
}

func (b *refunds) admit(sys system, dir handle, path []string) (went func(bool), err error) {
	h, err := sys.open(dir, path[len(path)-1], pathOnly, 0)
	if err != nil {
		return func(bool) {}, nil // it is not paid back
	}
	was, err := sys.stat(h, "", false)
	return func(gone bool) {
		defer sys.close(h)
		if gone && err == nil {
			b.count(sys, h, &was)
		}
	}, nil
}

func (b *refunds) count(sys system, h handle, was *status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, err := sys.stat(h, "", false)
	switch {
	case err != nil:
	case isNameless(sys, h):
		b.gone.Files++
		if now.isRegular() {
			b.gone.Bytes += now.size
		}
	case now.nlink < was.nlink && !now.isDir():
		b.gone.Files++
	}
}

// within is what is paid back of a charge.
func (b *refunds) within(charged Budget) Budget {
	return Budget{min(b.gone.Bytes, charged.Bytes), min(b.gone.Files, charged.Files)}
}
