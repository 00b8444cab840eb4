package caproot

import "io"

// Write writes all of p at the file's offset. It returns ErrTooLarge when that
// would end beyond Policy.MaxWriteBytes.
func (f *File) Write(p []byte) (int, error) {
	if err := f.enter(); err != nil {
		return 0, f.fail("write", err)
	}
	defer f.leave()
	if f.r.policy.MaxWriteBytes == NoLimit && f.r.tenure.ledger == nil {
		n, err := writeAll(f.r.sys, f.h, p)
		return n, f.fail("write", err)
	}
	// Two writes must not both find room for themselves.
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.writeWithin(p)
	return n, f.fail("write", err)
}

// writeWithin writes at the offset that it holds against the limits: a Read moves
// the file's own at any time.
func (f *File) writeWithin(p []byte) (int, error) {
	st, err := f.r.sys.stat(f.h, "", false)
	if err != nil {
		return 0, err
	}
	var at int64 // what has no offset, as a FIFO, has no size to limit either
	place := func() (int, error) { return writeAll(f.r.sys, f.h, p) }
	switch {
	case st.isSpecial():
	case f.how&appending != 0:
		at = st.size
	default:
		if at, err = f.r.sys.seek(f.h, 0, io.SeekCurrent); err != nil {
			return 0, err
		}
		place = func() (int, error) { return f.writeOn(p, at) }
	}
	if int64(len(p)) > f.r.policy.MaxWriteBytes-at {
		return 0, ErrTooLarge
	}
	return f.r.tenure.ledger.pay(len(p), st.holeBefore(at), place)
}

// writeOn writes at an offset and moves the file's own behind it.
func (f *File) writeOn(p []byte, offset int64) (int, error) {
	n, err := f.writeAllAt(p, offset)
	_, serr := f.r.sys.seek(f.h, offset+int64(n), io.SeekStart)
	if err == nil {
		err = serr
	}
	return n, err
}

// WriteAt writes all of p at an offset. It returns ErrTooLarge when that would
// end beyond Policy.MaxWriteBytes, or beyond what an int64 can count.
func (f *File) WriteAt(p []byte, offset int64) (n int, err error) {
	if err := f.enter(); err != nil {
		return 0, f.fail("writeat", err)
	}
	defer f.leave()
	switch {
	case offset < 0:
		return 0, f.fail("writeat", because(ErrOption, "the offset is negative"))
	case f.how&appending != 0:
		return 0, f.fail("writeat", because(ErrOption, "the file is open for appending"))
	case offset > f.r.policy.MaxWriteBytes-int64(len(p)):
		return 0, f.fail("writeat", ErrTooLarge)
	}
	var hole int64
	ledger := f.r.tenure.ledger
	if ledger != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		st, err := f.r.sys.stat(f.h, "", false)
		if err != nil {
			return 0, f.fail("writeat", err)
		}
		hole = st.holeBefore(offset)
	}
	n, err = ledger.pay(len(p), hole, func() (int, error) { return f.writeAllAt(p, offset) })
	return n, f.fail("writeat", err)
}

func (f *File) writeAllAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = f.r.sys.writeAt(f.h, p[n:], offset+int64(n))
		if err == nil && m == 0 {
			err = io.ErrShortWrite
		}
		n += m
	}
	return n, err
}

// Truncate changes the size of the file.
func (f *File) Truncate(size int64) error {
	if err := f.enter(); err != nil {
		return f.fail("truncate", err)
	}
	defer f.leave()
	if size > f.r.policy.MaxWriteBytes {
		return f.fail("truncate", ErrTooLarge)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := call{r: f.r}
	if f.r.tenure.parent != nil {
		c.g = new(grantedCall)
	}
	return f.fail("truncate", c.truncate(f.h, size))
}
