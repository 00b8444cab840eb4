package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrFormat is wrapped by every error of reading or writing a text form.
var ErrFormat = errors.New("identity: malformed")

// FieldError tells the field of a receipt or an ID whose value cannot be read or
// written, by its name in the JSON form. It matches ErrFormat.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q: %v", e.Field, e.Err) }

// Unwrap returns the cause, which matches ErrFormat.
func (e *FieldError) Unwrap() error { return e.Err }

// object is a JSON object whose fields are taken one by one. The first error
// stays, and what is taken after it is zero.
//
// It is stricter than encoding/json, which takes "PATH" for "path", the last of
// two equal keys, null for nothing, and U+FFFD for what is not Unicode: another
// reader of the same text could then see another receipt.
type object struct {
	fields map[string]json.RawMessage
	err    error
}

func readObject(data []byte) *object {
	o := &object{fields: map[string]json.RawMessage{}}
	switch {
	case len(data) > MaxReceiptBytes:
		o.err = fmt.Errorf("%w: longer than %d bytes", ErrFormat, MaxReceiptBytes)
	case !utf8.Valid(data) || loneSurrogate(data):
		o.err = fmt.Errorf("%w: not Unicode", ErrFormat)
	default:
		o.err = o.read(json.NewDecoder(bytes.NewReader(data)))
	}
	return o
}

func (o *object) read(d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%w: not a JSON object", ErrFormat)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		key, _ := t.(string)
		if _, twice := o.fields[key]; twice {
			return fmt.Errorf("%w: field %.60q twice", ErrFormat, key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		o.fields[key] = value
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more text after the object", ErrFormat)
	}
	return nil
}

// loneSurrogate finds a \u escape of half a character, as JavaScript writes one
// for a Windows name that is not Unicode. In JSON a backslash stands only inside
// of strings.
func loneSurrogate(data []byte) bool {
	for i := 0; i+1 < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		r := escaped(data[i:])
		if utf16.IsSurrogate(r) {
			low := escaped(data[i+6:])
			if utf16.DecodeRune(r, low) == utf8.RuneError {
				return true
			}
			i += 6
		}
		i++
	}
	return false
}

// escaped returns the value of the \u escape at the start of text, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	v, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(v)
}

func (o *object) has(key string) bool {
	_, ok := o.fields[key]
	return ok
}

func (o *object) fail(key string, err error) {
	if o.err == nil {
		o.err = &FieldError{key, err}
	}
}

// into takes a field that must be there.
func (o *object) into(key string, v any) {
	raw, ok := o.fields[key]
	switch {
	case o.err != nil:
	case !ok:
		o.fail(key, fmt.Errorf("%w: missing", ErrFormat))
	case string(raw) == "null":
		o.fail(key, fmt.Errorf("%w: null", ErrFormat))
	default:
		err := json.Unmarshal(raw, v)
		if err != nil && !errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if err != nil {
			o.fail(key, err)
		}
	}
}

// take takes a field that must be a string and parses it.
func take[T any](o *object, key string, parse func(string) (T, error)) (v T) {
	var s string
	if o.into(key, &s); o.err != nil {
		return v
	}
	v, err := parse(s)
	if err != nil {
		o.fail(key, err)
	}
	return v
}

// intoIf is into for a field that may be missing.
func (o *object) intoIf(key string, v any) {
	if o.has(key) {
		o.into(key, v)
	}
}

// takeIf is take for a field that may be missing.
func takeIf[T any](o *object, key string, parse func(string) (T, error)) (v T) {
	if !o.has(key) {
		return v
	}
	return take(o, key, parse)
}

func asText(s string) (string, error) { return s, nil }

// number is a uint64 that travels as a decimal string.
type number uint64

func (n number) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(n), 10), nil }
