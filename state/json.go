package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/caproot/caproot"
)

// Update changes the JSON in the file name below r: it locks, reads, calls f with
// the value, writes it back if f returns nil, and unlocks. A file that does not
// exist is the zero value of T, a nil map for a map; any other failure to read it
// comes back, and so does one of a file that is not JSON. f's error comes back
// unchanged and nothing is written; neither is it when the lock was lost while f
// ran. A failure to unlock is reported beside the result.
//
// Fields that T does not name survive in a map, of any or of json.RawMessage;
// numbers in an any are json.Number, exactly as written. A struct drops them.
//
// A nested Update of the same file waits for itself: it ends with lock.ErrBusy
// after Options.Timeout. With UpdateContext it fails at once.
//
// Readers need no lock: see Read. It needs the rights Read, List, Create, Replace
// and Remove, and with a lease those of lock.AcquireLease.
func Update[T any](ctx context.Context, r *caproot.Root, name string, f func(*T) error, o Options) error {
	return UpdateContext(ctx, r, name, func(_ context.Context, v *T) error { return f(v) }, o)
}

// UpdateContext is Update for a function that takes a context, which ends when the
// lock is lost. An Update of the same file under it fails with lock.ErrNested.
func UpdateContext[T any](ctx context.Context, r *caproot.Root, name string, f func(context.Context, *T) error, o Options) error {
	return UpdateBytes(ctx, r, name, func(ctx context.Context, old []byte) ([]byte, error) {
		var v T
		if err := decode(name, old, &v); err != nil {
			return nil, err
		}
		if err := f(ctx, &v); err != nil {
			return nil, err
		}
		return encode(name, v)
	}, o)
}

// Read returns the JSON in the file name below r, as it was published last. The
// zero value stands for a file that does not exist.
func Read[T any](r *caproot.Root, name string) (v T, err error) {
	target, err := r.Target(name)
	if err != nil {
		return v, err
	}
	data, err := readFile(r, target, 0)
	if err == nil {
		err = decode(name, data, &v)
	}
	return v, err
}

// decode reads one value and nothing after it. No content at all is none.
func decode(name string, data []byte, v any) error {
	if data == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err := d.Decode(v)
	switch {
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case err == nil:
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func encode(name string, v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b.Bytes(), nil
}
