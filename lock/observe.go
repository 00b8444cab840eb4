package lock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/caproot/caproot"
)

// obstacle is why an attempt did not get the lock.
type obstacle struct {
	kind  obstacleKind
	guard bool // it is the guard that stands in the way
	own   bool // this process is the holder
	// file is open on a record whose holder is alive, and raw has the bytes of
	// one without a witness.
	file *os.File
	id   recordID
	raw  []byte
}

type obstacleKind uint8

const (
	changed  obstacleKind = iota // what was looked at is gone: look again
	alive                        // the holder has the system's lock: wait for that
	unproved                     // nothing tells when the holder is done
)

var lookAgain = &obstacle{kind: changed}

func (o *obstacle) drop() {
	if o != nil && o.file != nil {
		o.file.Close()
		o.file = nil
	}
}

// openNamed opens what has the name, without following or blocking. Of a
// directory, which is no record, there may be no file.
func (p *place) openNamed(name string) (*os.File, object, error) {
	f, err := p.dir.OpenFileNoFollow(name, os.O_RDONLY|openNonBlocking, 0)
	if errors.Is(err, syscall.EISDIR) {
		return nil, object{directory: true, nlink: 1}, nil
	}
	if err != nil {
		return nil, object{}, err
	}
	o, err := look(f)
	if err != nil {
		f.Close()
		return nil, object{}, err
	}
	return f, o, nil
}

// unlockClose lets go of a record that was locked to look at it.
func unlockClose(f *os.File) {
	funlock(f)
	f.Close()
}

// gone is true when a name does not have the object any more that it had.
func gone(err error) bool {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, caproot.ErrChanged) {
		return false
	}
	var r refusal
	return !errors.As(err, &r)
}

var errForeign = errors.New("the record belongs to another user")

// unusable is the error for what no holder makes, or nil.
func (a *acquisition) unusable(o *object) error {
	var why error
	switch {
	case o.directory:
		why = &fs.PathError{Op: "lock", Path: a.place.lockPath, Err: syscall.EISDIR}
	case !o.regular:
		why = caproot.ErrSpecial
	case o.foreign():
		why = errForeign
	case o.nlink > 1:
		why = caproot.ErrHardlink
	case o.size > MaxRecordBytes:
		why = ErrTooLarge
	default:
		return nil
	}
	return &RecordError{a.place.lockPath, why}
}

// maxLinked is how often a second name of the record is given time to go. Peers
// that publish by link and unlink show one for a moment.
const maxLinked = 8

// inspect looks at the record that is in the way. locked is the record, open
// and locked, if a wait for it has ended.
func (a *acquisition) inspect(locked *os.File) (held bool, _ *obstacle, _ error) {
	f, id := locked, recordID{}
	if f == nil {
		var o object
		var err error
		if f, o, err = a.place.openNamed(a.place.leaf); err != nil {
			return false, lookAgain, a.openError(err)
		}
		if err := a.unusable(&o); err != nil || o.nlink == 0 {
			f.Close()
			switch {
			case o.nlink == 0:
				return false, lookAgain, nil
			case o.regular && o.nlink > 1 && a.linked < maxLinked:
				a.linked++
				return false, &obstacle{kind: unproved}, nil
			}
			return false, nil, err
		}
		id = o.id
		switch err := flock(f, false); {
		case err == errLocked:
			return false, &obstacle{kind: alive, file: f, id: id, own: registry.holder(id) != nil}, nil
		case err != nil:
			return a.legacy(f)
		}
	}
	if err := a.place.dir.CheckSame(a.place.leaf, f); err != nil {
		unlockClose(f)
		if !gone(err) {
			return false, nil, err
		}
		return false, lookAgain, nil
	}
	proved, err := a.provesDeath(a.place.leaf, f)
	if err != nil {
		unlockClose(f)
		return false, nil, err
	}
	if !proved {
		funlock(f)
		return a.legacy(f)
	}
	defer unlockClose(f)
	return a.replace(f, nil)
}

// openError sorts the answers of opening a record: gone is no error.
func (a *acquisition) openError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, caproot.ErrSymlink), errors.Is(err, caproot.ErrEscape), errors.Is(err, caproot.ErrSpecial),
		errors.Is(err, caproot.ErrHardlink), errors.Is(err, caproot.ErrMount), errors.Is(err, syscall.EISDIR),
		errors.Is(err, fs.ErrPermission) && !errors.Is(err, caproot.ErrPolicy):
		return &RecordError{a.place.lockPath, err}
	}
	return err
}

// provesDeath decides whether holding the system's lock on f, which has the
// name, proves that the maker of the record does not run any more: the record
// says that its maker locks it, and names its own inode; locks of the file
// system are shared by every possible holder; and the maker saw the file as we do.
func (a *acquisition) provesDeath(name string, f *os.File) (bool, error) {
	o, err := look(f)
	if err != nil {
		return false, err
	}
	raw, err := readRecord(f, o.size)
	if err != nil {
		if errors.Is(err, ErrTooLarge) {
			return false, &RecordError{a.place.lockPath, ErrTooLarge}
		}
		return false, err
	}
	_, w, marked := splitRecord(raw)
	if !marked || w.inode != o.id.ino || registry.holder(o.id) != nil {
		return false, nil
	}
	if view, ok := viewOf(f); !ok || view != w.flags {
		return false, nil
	}
	return a.place.locksWork(name, f)
}

// legacy judges a record whose holder cannot be proved dead. It closes f.
func (a *acquisition) legacy(f *os.File) (held bool, _ *obstacle, _ error) {
	defer f.Close()
	o, err := look(f)
	if err != nil {
		return false, nil, err
	}
	raw, err := readRecord(f, o.size)
	if err != nil {
		return false, nil, &RecordError{a.place.lockPath, err}
	}
	own := registry.holder(o.id) != nil
	wait := &obstacle{kind: unproved, raw: raw, own: own, id: o.id}
	text, _, _ := splitRecord(raw)
	age := ageOf(text, o.mtime)
	now := time.Now()
	stale := age.stale(a.o.StaleAfter, now)
	if len(raw) == 0 && now.Sub(o.mtime) < emptyGrace {
		// Its maker may be between creation and first write.
		return false, wait, nil
	}
	if !stale && a.o.ShouldReclaim == nil {
		return false, wait, nil
	}
	snapshot := StaleRecord{
		LockPath: a.place.lockPath, Target: a.target, Raw: raw, ModTime: o.mtime,
		StaleAfter: a.o.StaleAfter, Now: now, HeldByThisProcess: own,
	}
	if snapshot.Payload, err = a.parse(text); err != nil {
		return false, nil, err
	}
	if a.o.ShouldReclaim != nil {
		if stale, err = a.o.ShouldReclaim(snapshot.copy()); err != nil {
			return false, nil, err
		}
	}
	if !stale || own {
		return false, wait, nil
	}
	left := &StaleError{LockPath: a.place.lockPath, Payload: snapshot.Payload, Since: age.since, Empty: len(raw) == 0}
	if a.o.StaleRecovery != RemoveIfUnchanged || a.o.ShouldRemoveStale == nil {
		return false, nil, left
	}
	return a.replace(f, &consent{raw: raw, ask: func() error {
		approved, err := a.o.ShouldRemoveStale(snapshot.copy())
		if err == nil && !approved {
			err = left
		}
		return err
	}})
}

// emptyGrace is the least age of an empty record before anybody is asked
// about it.
const emptyGrace = time.Second

// parse gives the caller's parser bytes of its own.
func (a *acquisition) parse(text []byte) (any, error) {
	if a.o.Parse != nil {
		return a.o.Parse(append([]byte(nil), text...))
	}
	return parseObject(text)
}

// copy keeps a callback from changing what is compared later.
func (s StaleRecord) copy() StaleRecord {
	s.Raw = append([]byte(nil), s.Raw...)
	return s
}
