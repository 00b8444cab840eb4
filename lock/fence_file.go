package lock

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot"
)

// fenceDir is where the fence files of a root lie.
const fenceDir = ".caproot/fence/"

const turnSuffix = ".turn"

const turnNote = "Turnstile of the fence file beside it. It may be deleted when nobody holds a lease here.\n"

// fenceFile is an open fence file. Its lock orders transitions, exclusively, and
// changes of fenced roots, shared.
//
// flock(2) lets shared lockers overtake an exclusive one for ever. So everybody
// locks the turnstile first; a shared locker lets go of it when it has the fence,
// an exclusive one when its transition is done.
type fenceFile struct {
	root  *caproot.Root // of its own: the caller's may be closed before
	name  string
	file  *os.File
	turn  *os.File
	local bool
	epoch epoch
	busy  chan struct{} // one transition of this process at a time
}

// fenceName is the name of the fence file of a record.
func fenceName(lockPath string) string {
	sum := sha256.Sum256([]byte(lockPath))
	return fenceDir + hex.EncodeToString(sum[:16])
}

// openFence opens the fence of a record and makes it if it is missing.
func openFence(r *caproot.Root, lockPath string) (_ *fenceFile, err error) {
	f := &fenceFile{name: fenceName(lockPath), busy: make(chan struct{}, 1)}
	if f.root, err = r.OpenRoot("."); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	var e epoch
	rand.Read(e[:])
	if f.file, err = f.openOrMake(f.name, newFenceContent(e, lockPath)); err != nil {
		return nil, err
	}
	if f.turn, err = f.openOrMake(f.name+turnSuffix, []byte(turnNote)); err != nil {
		return nil, err
	}
	f.local = trusted(f.file)
	v, err := f.read()
	f.epoch = v.epoch
	return f, err
}

func (f *fenceFile) openOrMake(name string, content []byte) (*os.File, error) {
	for range maxReplaced {
		file, err := f.root.OpenFileNoFollow(name, os.O_RDWR|openNonBlocking, 0)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = f.root.Put(name, content, caproot.PutOptions{
				Mode: 0o600, NoReplace: true, Parents: true, ParentMode: 0o755, Durability: caproot.DurabilityDir,
			})
			if err == nil || errors.Is(err, fs.ErrExist) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		o, err := look(file)
		if err == nil && (!o.regular || o.nlink > 1) {
			err = fmt.Errorf("%w: %s is not a file of its own", ErrFenceLost, name)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: caproot.ErrUnstable}
}

func (f *fenceFile) close() error {
	var errs []error
	for _, file := range []*os.File{f.turn, f.file} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(append(errs, f.root.Close())...)
}

func (f *fenceFile) read() (fenceView, error) {
	var buf [fenceBytes]byte
	n, err := f.file.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return fenceView{}, err
	}
	return parseFence(buf[:n])
}

// current is read for those who have a lock on the file: it has its name still,
// and its epoch.
func (f *fenceFile) current() (fenceView, error) {
	if err := f.root.CheckSame(f.name, f.file); err != nil {
		if gone(err) {
			err = fmt.Errorf("%w: the file was removed or replaced", ErrFenceLost)
		}
		return fenceView{}, err
	}
	v, err := f.read()
	if err == nil && v.epoch != f.epoch {
		err = fmt.Errorf("%w: it has another epoch", ErrFenceLost)
	}
	return v, err
}

// observe is read for those who have no lock: by a fresh open, because a network
// file system brings its cache up to date then.
func (f *fenceFile) observe() (fenceView, error) {
	file, err := f.root.OpenFileNoFollow(f.name, os.O_RDONLY|openNonBlocking, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the file was removed", ErrFenceLost)
		}
		return fenceView{}, err
	}
	defer file.Close()
	fresh := fenceFile{file: file}
	v, err := fresh.read()
	if err == nil && f.epoch != (epoch{}) && v.epoch != f.epoch {
		err = fmt.Errorf("%w: it has another epoch", ErrFenceLost)
	}
	return v, err
}

// advance makes next the slot that counts. It needs the exclusive lock. The slot
// is on stable storage when it returns.
func (f *fenceFile) advance(v *fenceView, next fenceSlot) error {
	next.seq = v.seq + 1
	if _, err := f.file.WriteAt(next.encode(f.epoch), v.older); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *fenceFile) beat(holder leaseID, n uint64) error {
	_, err := f.file.WriteAt(newCell(holder, n), cellOffset)
	return err
}

const (
	shortestPoll = 50 * time.Microsecond
	longestPoll  = 5 * time.Millisecond
)

// exclusive takes the lock for a transition. It waits for changes that are being
// made, and for other transitions, until ctx ends.
func (f *fenceFile) exclusive(ctx context.Context) (unlock func() error, err error) {
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := f.passTurn(ctx); err != nil {
		return nil, err
	}
	// Nobody new comes in; who is inside makes one call of the kernel.
	for pause := shortestPoll; ; pause = min(2*pause, longestPoll) {
		err = lockFile(f.file, false, false, f.local)
		if err != errLocked {
			break
		}
		if err = sleep(ctx, pause); err != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.leaveTurn())
	}
	return func() error { return errors.Join(unlockFile(f.file, f.local), f.leaveTurn()) }, nil
}

func (f *fenceFile) leaveTurn() error {
	defer func() { <-f.busy }()
	return unlockFile(f.turn, f.local)
}

// passTurn locks the turnstile. A wait that is given up goes on in its thread
// until the kernel grants the lock, and other transitions of this process wait
// behind it.
func (f *fenceFile) passTurn(ctx context.Context) error {
	err := lockFile(f.turn, false, false, f.local)
	if err == errLocked {
		locked := make(chan error, 1)
		go func() { locked <- lockFile(f.turn, false, true, false) }()
		select {
		case err = <-locked:
		case <-ctx.Done():
			go func() {
				if <-locked == nil {
					f.leaveTurn()
				} else {
					<-f.busy
				}
			}()
			return context.Cause(ctx)
		}
	}
	if err != nil {
		<-f.busy
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
