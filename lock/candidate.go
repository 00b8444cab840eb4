package lock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/caproot/caproot"
)

// candidate is a record, or a guard, that is written and locked before it has
// a name that others know.
type candidate struct {
	file    *os.File // nil: a plain one, before its publication
	id      recordID
	private string // the hidden name it lies under until it is published
	hidden  string // the name to keep it under
	bytes   []byte
	payload []byte // the beginning of bytes
	witness bool   // its maker holds the system's lock on it
	view    byte   // how the file system looked, for the witness line
	durable bool   // its content is flushed
}

var errSwept = errors.New("the private record was swept away")

// newCandidate makes one the way the file system allows, which is found out
// once for each device: a file without a name, or a private one to be renamed,
// or, where locks prove nothing, nothing before the exclusive creation.
func (p *place) newCandidate(keep bool) (*candidate, error) {
	d := devices.of(p.id.dev)
	for {
		how := d.maker()
		if how == makePlain {
			return &candidate{}, nil
		}
		if keep {
			how = makeNamed
		}
		c, err := p.prepare(how)
		if err == nil {
			return c, nil
		}
		switch {
		case errors.Is(err, errNoProof):
			d.lower(makePlain)
		case how == makeUnnamed && errors.Is(err, ErrUnsupported):
			d.lower(makeNamed)
		case !errors.Is(err, errSwept):
			return nil, err
		}
	}
}

// errNoProof is prepare's answer where a lock proves nothing about the holder.
var errNoProof = errors.New("locks of the file system prove nothing")

func (p *place) prepare(how maker) (c *candidate, err error) {
	c = &candidate{witness: true}
	if how == makeUnnamed {
		c.file, err = p.dir.CreateUnnamed(".")
	} else {
		c.private = privatePrefix + rand.Text()
		c.file, err = p.dir.OpenFileNoFollow(c.private, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, err
	}
	o, err := look(c.file)
	if err == nil {
		c.id = o.id
		err = flock(c.file, false)
	}
	switch {
	case err == errLocked:
		// A sweep took it for debris in the moment before it was locked.
		err = errSwept
	case err != nil:
		err = fmt.Errorf("%w: %w", errNoProof, err)
	default:
		var ok bool
		if c.view, ok = viewOf(c.file); !ok {
			err = errNoProof
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.discard(p))
	}
	return c, nil
}

// write gives the candidate its content: the payload, which it takes over, and,
// anew each time, the lines after it. A token is never used twice, because peers
// compare by it.
func (c *candidate) write(p *place, payload []byte, durable bool) error {
	var w *witness
	if c.witness {
		w = &witness{flags: c.view, boot: bootHash(), inode: c.id.ino}
	}
	record := appendRecord(payload, w, newToken())
	if err := fits(p, record); err != nil {
		return err
	}
	old := len(c.bytes)
	c.bytes, c.payload = record, record[:len(payload):len(payload)]
	c.durable = durable
	if c.file == nil {
		return nil
	}
	if _, err := c.file.WriteAt(record, 0); err != nil {
		return err
	}
	if old > len(record) {
		if err := c.file.Truncate(int64(len(record))); err != nil {
			return err
		}
	}
	if durable {
		return c.file.Sync()
	}
	return nil
}

func fits(p *place, record []byte) error {
	if len(record) > MaxRecordBytes || int64(len(record)) > p.dir.Policy().MaxWriteBytes {
		return &fs.PathError{Op: "lock", Path: p.lockPath, Err: ErrTooLarge}
	}
	return nil
}

// publish gives the candidate a name, complete and locked, if nothing has it.
func (c *candidate) publish(p *place, name string) error {
	switch {
	case c.file == nil:
		return c.createPlain(p, name)
	case c.private == "":
		err := p.dir.NameUnnamed(c.file, name)
		if errors.Is(err, ErrUnsupported) {
			devices.of(p.id.dev).lower(makeNamed)
			return errSwept
		}
		return err
	}
	err := p.dir.MoveSame(c.private, name, c.file)
	switch {
	case err == nil:
		c.private, c.hidden = "", c.private
	case errors.Is(err, ErrUnsupported):
		devices.of(p.id.dev).lower(makePlain)
		return errSwept
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, caproot.ErrChanged):
		return errSwept
	}
	return err
}

// createPlain makes a record as fs-safe does: it is empty for a moment.
func (c *candidate) createPlain(p *place, name string) error {
	f, err := p.dir.OpenFileNoFollow(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	c.file = f
	o, err := look(f)
	if err == nil {
		c.id = o.id
		_, err = f.WriteAt(c.bytes, 0)
	}
	if err == nil && c.durable {
		err = f.Sync()
	}
	if err != nil {
		err = errors.Join(err, p.dir.RemoveSame(name, f), f.Close())
		c.file = nil
	}
	return err
}

// arrived tells whether the record just published still has its name. What had
// no name before has the content that was written. What was visible while it was
// made, or kept under a hidden name, is read again.
func (c *candidate) arrived(p *place, name string) error {
	if c.witness && c.hidden == "" {
		return p.dir.CheckSame(name, c.file)
	}
	return c.is(p, name)
}

// is tells whether name is this record: its only name, and its content.
func (c *candidate) is(p *place, name string) error {
	if err := p.dir.CheckSame(name, c.file); err != nil {
		return err
	}
	return c.unchanged()
}

// unchanged compares the descriptor and the content with what was written.
func (c *candidate) unchanged() error {
	o, err := look(c.file)
	if err != nil {
		return err
	}
	return c.unchangedAs(&o)
}

// unchangedAs is unchanged after a look.
func (c *candidate) unchangedAs(o *object) error {
	if o.id != c.id {
		return errNotOurs
	}
	var buf [512]byte
	now := buf[:]
	if len(c.bytes) > len(buf) {
		now = make([]byte, len(c.bytes))
	}
	n, err := c.file.ReadAt(now[:len(c.bytes)], 0)
	switch {
	case err != nil && err != io.EOF && n < len(c.bytes):
		return err // that says nothing about the content
	case o.size != int64(len(c.bytes)) || string(now[:n]) != string(c.bytes):
		return errRewritten
	}
	return nil
}

var (
	errNotOurs   = fmt.Errorf("%w: the descriptor of the record was closed or replaced by the program", caproot.ErrChanged)
	errRewritten = fmt.Errorf("%w: the content of the record was changed", caproot.ErrChanged)
)

// discard takes an unpublished candidate away.
func (c *candidate) discard(p *place) error {
	if c.file == nil {
		return nil
	}
	var err error
	if c.private != "" {
		err = p.dir.RemoveSame(c.private, c.file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, caproot.ErrChanged) {
			err = nil
		}
	}
	c.abandon()
	return err
}

// remove takes the published candidate's name away while its lock is held, and
// then closes it. After an error that is not a change, nothing is closed.
func (c *candidate) remove(p *place, name string) error {
	err := p.dir.RemoveSame(name, c.file)
	if err == nil {
		c.close() // the descriptor was that of the name a moment ago
		return nil
	}
	if err = p.refused(err, name); gone(err) {
		c.abandon()
	}
	return err
}

// refused returns the root's own refusal where an answer that looks like a
// change of the name comes of the root: it was closed, or its path replaced.
func (p *place) refused(err error, name string) error {
	if !gone(err) {
		return err
	}
	if _, rerr := p.dir.Lexists(name); rerr != nil {
		return refusal{rerr}
	}
	return err
}

// refusal hides from gone what stands for no change of a record.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// abandon unlocks and closes the file, if the descriptor is still of it.
func (c *candidate) abandon() {
	if o, err := look(c.file); err != nil || o.id != c.id {
		registry.keepOpen(c.file)
		return
	}
	c.close()
}

func (c *candidate) close() {
	if c.witness {
		funlock(c.file)
	}
	c.file.Close()
}
