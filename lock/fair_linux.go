package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The queue of Fair is a file of one counter, never deleted. A ticket is a byte
// far behind it that its owner has locked; the front is who finds no byte
// before its own locked. The kernel unlocks the bytes of the dead.
//
//	lock the counter, read it: t
//	lock byte t                  before the counter says so, or the next could pass
//	write the counter: t+1
//	unlock the counter
//	read-lock all bytes before t the whole range: t-1 may be gone, and t-2 not
const (
	counterBytes = 8
	firstTicket  = 1 << 32
)

// ticket is a place in the queue.
type ticket struct {
	file *os.File

	mu      sync.Mutex
	number  int64
	taken   bool
	dropped bool
}

// queueUp returns when the acquisition is at the front of the processes that
// use Fair too. The place is kept until leave.
func (a *acquisition) queueUp() (leave func(), err error) {
	if !a.o.Fair {
		return func() {}, nil
	}
	f, err := a.place.dir.OpenFileNoFollow(a.place.leaf+queueSuffix, os.O_RDWR|os.O_CREATE|openNonBlocking, 0o600)
	if err != nil {
		if unusable := a.openError(err); unusable != nil {
			err = unusable
		}
		return nil, err
	}
	o, err := look(f)
	switch {
	case err != nil:
	case !o.regular || o.foreign() || o.nlink != 1:
		err = &RecordError{a.place.lockPath + queueSuffix, errors.New("not a queue file of this user")}
	case !trusted(f):
		err = fmt.Errorf("%w: Fair on a file system whose locks prove nothing", ErrUnsupported)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return a.stand(&ticket{file: f})
}

// stand waits in the queue, if it must on a thread of its own, because the kernel
// does not know contexts.
func (a *acquisition) stand(t *ticket) (leave func(), err error) {
	wait := a.wait && a.ctx.Err() == nil
	if err = t.advance(false, false); err == errLocked && (wait || !t.taken) {
		done := make(chan error, 1)
		go func() { done <- t.advance(true, wait) }()
		select {
		case err = <-done:
		case <-a.ctx.Done():
			t.drop()
			go func() {
				<-done
				t.file.Close()
			}()
			return nil, a.ended(&BusyError{LockPath: a.place.lockPath, Waited: time.Since(a.started)})
		}
	}
	if err == nil {
		return func() { t.file.Close() }, nil
	}
	t.file.Close()
	if err == errLocked {
		err = a.ended(&BusyError{LockPath: a.place.lockPath, Waited: time.Since(a.started)})
	}
	return nil, err
}

// advance takes a number, unless it has one, waiting for the counter if it may,
// and then waits until the number is the lowest if it may. Otherwise it returns
// errLocked.
func (t *ticket) advance(waitNumber, waitTurn bool) error {
	if !t.taken {
		if err := byteLock(t.file, unix.F_WRLCK, 0, counterBytes, waitNumber); err != nil {
			return err
		}
		err := t.take()
		if uerr := byteLock(t.file, unix.F_UNLCK, 0, counterBytes, true); err == nil {
			err = uerr
		}
		if err != nil {
			return err
		}
	}
	if t.number == 0 {
		return nil
	}
	return byteLock(t.file, unix.F_RDLCK, firstTicket, t.number, waitTurn)
}

// take needs the lock on the counter.
func (t *ticket) take() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped {
		return context.Canceled
	}
	var counter [counterBytes]byte
	n, err := t.file.ReadAt(counter[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	number := int64(binary.BigEndian.Uint64(counter[:]))
	if n%counterBytes != 0 || number < 0 || number > 1<<61 {
		return fmt.Errorf("%w: the counter of the queue", ErrRecord)
	}
	if err := byteLock(t.file, unix.F_WRLCK, firstTicket+number, 1, true); err != nil {
		return err
	}
	t.number, t.taken = number, true
	binary.BigEndian.PutUint64(counter[:], uint64(number+1))
	_, err = t.file.WriteAt(counter[:], 0)
	return err
}

// drop lets those behind pass while the thread is still blocked.
func (t *ticket) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped = true
	if t.taken {
		byteLock(t.file, unix.F_UNLCK, firstTicket+t.number, 1, true)
	}
}

// byteLock locks or unlocks a range for the open file, not for the process.
func byteLock(f *os.File, how int16, start, length int64, wait bool) error {
	command := unix.F_OFD_SETLK
	if wait {
		command = unix.F_OFD_SETLKW
	}
	for {
		err := unix.FcntlFlock(f.Fd(), command, &unix.Flock_t{Type: how, Start: start, Len: length})
		runtime.KeepAlive(f)
		switch err {
		case unix.EINTR:
		case unix.EAGAIN, unix.EACCES:
			return errLocked
		default:
			return err
		}
	}
}
