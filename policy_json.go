package caproot

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by every error of reading or writing the text of a
// policy or of one of its rules.
var ErrFormat = errors.New("malformed")

// The names of the rules, in the order of their values.
var (
	rightTerms = []string{
		"read", "list", "create", "replace", "modify", "mkdir", "move", "remove", "link", "symlink", "attrib", "share",
	}
	linkTerms     = []string{"refuse", "follow-parents", "follow", "resolve-in-root"}
	targetTerms   = []string{"inside", "any"}
	hardlinkTerms = []string{"refuse", "refuse-mutation", "allow"}
	mountTerms    = []string{"stay", "cross"}
	specialTerms  = []string{"refuse", "allow"}
	bindTerms     = []string{"path", "handle"}
)

// String gives the name that the JSON form has, see docs/policy.md.
func (r LinkRule) String() string     { return showTerm(linkTerms, r) }
func (r TargetRule) String() string   { return showTerm(targetTerms, r) }
func (r HardlinkRule) String() string { return showTerm(hardlinkTerms, r) }
func (r MountRule) String() string    { return showTerm(mountTerms, r) }
func (r SpecialRule) String() string  { return showTerm(specialTerms, r) }
func (r BindRule) String() string     { return showTerm(bindTerms, r) }

// MarshalText writes the name of the rule. It returns an error that wraps
// ErrFormat for a value that is none of the constants.
func (r LinkRule) MarshalText() ([]byte, error)     { return writeTerm(linkTerms, r) }
func (r TargetRule) MarshalText() ([]byte, error)   { return writeTerm(targetTerms, r) }
func (r HardlinkRule) MarshalText() ([]byte, error) { return writeTerm(hardlinkTerms, r) }
func (r MountRule) MarshalText() ([]byte, error)    { return writeTerm(mountTerms, r) }
func (r SpecialRule) MarshalText() ([]byte, error)  { return writeTerm(specialTerms, r) }
func (r BindRule) MarshalText() ([]byte, error)     { return writeTerm(bindTerms, r) }

// UnmarshalText reads the name of a rule. It returns an error that wraps
// ErrFormat for any other text and then leaves the value alone.
func (r *LinkRule) UnmarshalText(text []byte) error     { return readTerm(linkTerms, text, r) }
func (r *TargetRule) UnmarshalText(text []byte) error   { return readTerm(targetTerms, text, r) }
func (r *HardlinkRule) UnmarshalText(text []byte) error { return readTerm(hardlinkTerms, text, r) }
func (r *MountRule) UnmarshalText(text []byte) error    { return readTerm(mountTerms, text, r) }
func (r *SpecialRule) UnmarshalText(text []byte) error  { return readTerm(specialTerms, text, r) }
func (r *BindRule) UnmarshalText(text []byte) error     { return readTerm(bindTerms, text, r) }

func showTerm[T ~uint8](terms []string, v T) string {
	if int(v) >= len(terms) {
		return "invalid(" + strconv.Itoa(int(v)) + ")"
	}
	return terms[v]
}

func writeTerm[T ~uint8](terms []string, v T) ([]byte, error) {
	if int(v) >= len(terms) {
		return nil, malformed("%d is the number of none of %q", v, terms)
	}
	return []byte(terms[v]), nil
}

func readTerm[T ~uint8](terms []string, text []byte, into *T) error {
	for i, term := range terms {
		if term == string(text) {
			*into = T(i)
			return nil
		}
	}
	return malformed("%.60q is none of %q", text, terms)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFormat}, args...)...)
}

// String lists the rights by name, "none" if there is none.
func (r Rights) String() string {
	names := r.names()
	if odd := r &^ AllRights; odd != 0 {
		names = append(names, fmt.Sprintf("invalid(%#x)", uint16(odd)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

func (r Rights) names() []string {
	names := []string{}
	for i, name := range rightTerms {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// MarshalJSON writes the list of the names. It returns an error that wraps
// ErrFormat for a bit that is no right.
func (r Rights) MarshalJSON() ([]byte, error) {
	if odd := r &^ AllRights; odd != 0 {
		return nil, malformed("%#x is no right", uint16(odd))
	}
	return json.Marshal(r.names())
}

// UnmarshalJSON reads a list of names in any order. It returns an error that
// wraps ErrFormat for a name that it does not know or meets twice.
func (r *Rights) UnmarshalJSON(data []byte) error {
	var names []string
	if err := json.Unmarshal(data, &names); err != nil || names == nil {
		return malformed("rights are a list of names")
	}
	var out Rights
	for _, name := range names {
		var bit uint8
		if err := readTerm(rightTerms, []byte(name), &bit); err != nil {
			return err
		}
		if out&(1<<bit) != 0 {
			return malformed("right %q twice", name)
		}
		out |= 1 << bit
	}
	*r = out
	return nil
}

// octalModes is Policy.Modes as four octal digits of Unix.
type octalModes fs.FileMode

// unixSpecial has the bits of Unix above the permissions.
var unixSpecial = []struct {
	octal uint64
	mode  fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

func (m octalModes) String() string {
	mode := fs.FileMode(m)
	n := uint64(mode.Perm())
	for _, b := range unixSpecial {
		if mode&b.mode != 0 {
			n |= b.octal
		}
	}
	text := fmt.Sprintf("%04o", n)
	if odd := mode &^ allModes; odd != 0 {
		text += fmt.Sprintf(",invalid(%#x)", uint32(odd))
	}
	return text
}

func (m octalModes) MarshalText() ([]byte, error) {
	if odd := fs.FileMode(m) &^ allModes; odd != 0 {
		return nil, malformed("%#x is no mode bit of Unix", uint32(odd))
	}
	return []byte(m.String()), nil
}

func (m *octalModes) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 12)
	if err != nil || len(text) != 4 {
		return malformed("%.60q is not four octal digits", text)
	}
	mode := fs.FileMode(n) & fs.ModePerm
	for _, b := range unixSpecial {
		if n&b.octal != 0 {
			mode |= b.mode
		}
	}
	*m = octalModes(mode)
	return nil
}

// byteLimit is a number of bytes. It travels as a decimal string, because many
// readers of JSON keep numbers as doubles.
type byteLimit int64

const unlimited = "unlimited"

func (l byteLimit) String() string {
	if l == NoLimit {
		return unlimited
	}
	return strconv.FormatInt(int64(l), 10)
}

func (l byteLimit) MarshalText() ([]byte, error) {
	if l < 0 {
		return nil, malformed("a limit of %d bytes", int64(l))
	}
	return []byte(l.String()), nil
}

func (l *byteLimit) UnmarshalText(text []byte) error {
	if string(text) == unlimited {
		*l = NoLimit
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != string(text) {
		return malformed("%.60q is neither %q nor a number of bytes", text, unlimited)
	}
	*l = byteLimit(n)
	return nil
}

// policyField is a field of a policy in its text forms.
type policyField struct {
	name  string
	value fmt.Stringer // a pointer that encoding/json writes and reads
}

// fields has every field of p, in the order in which they are written.
func (p *Policy) fields() []policyField {
	return []policyField{
		{"rights", &p.Rights},
		{"links", &p.Links},
		{"mutation_links", &p.MutationLinks},
		{"link_targets", &p.LinkTargets},
		{"hardlinks", &p.Hardlinks},
		{"mounts", &p.Mounts},
		{"special", &p.Special},
		{"modes", (*octalModes)(&p.Modes)},
		{"names", &p.Names},
		{"max_read_bytes", (*byteLimit)(&p.MaxReadBytes)},
		{"max_write_bytes", (*byteLimit)(&p.MaxWriteBytes)},
		{"durability", &p.Durability},
		{"bind", &p.Bind},
		{"containment", &p.Containment},
	}
}

// valid returns an error that matches ErrOption and ErrFormat for a value that
// is none of the constants, a bit that means nothing, or a negative limit. None of
// them is taken for the next best rule: a greater value would allow more.
func (p Policy) valid() error {
	for _, f := range p.fields() {
		err := error(nil)
		switch v := f.value.(type) {
		case encoding.TextMarshaler:
			_, err = v.MarshalText()
		case *Rights:
			if odd := *v &^ AllRights; odd != 0 {
				err = malformed("%#x is no right", uint16(odd))
			}
		}
		if err != nil {
			err = malformedField(f.name, err)
			return &detail{ErrOption, "policy: " + err.Error(), err}
		}
	}
	return nil
}

// String gives the policy on one line, each field as name=value. It is for
// people and logs; the form that can be read back is JSON.
func (p Policy) String() string {
	var b strings.Builder
	for i, f := range p.fields() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.name + "=" + f.value.String())
	}
	return b.String()
}

// MarshalJSON writes the form documented in docs/policy.md, every field of it.
// It returns an error that wraps ErrFormat for a policy that could not be read
// back: with a value that is none of the constants, or a negative limit.
func (p Policy) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, f := range p.fields() {
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, malformedField(f.name, err)
		}
		fmt.Fprintf(&b, "%c%q:%s", "{,"[min(i, 1)], f.name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads that form. A missing field has its zero value, the
// strictest. Everything that is not understood is refused with an error that
// wraps ErrFormat and leaves p alone: an unknown field or value, null, a field
// given twice, a name in other case.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var out Policy
	known := map[string]any{}
	for _, f := range out.fields() {
		known[f.name] = f.value
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return malformed("a policy is a JSON object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return malformed("%w", err)
		}
		name, _ := t.(string)
		value, ok := known[name]
		if !ok {
			return malformed("field %.60q is unknown, or there twice", name)
		}
		delete(known, name)
		if err := decodeField(d, value); err != nil {
			return malformedField(name, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed("%w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return malformed("more text after the policy")
	}
	*p = out
	return nil
}

func decodeField(d *json.Decoder, value any) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	if string(raw) == "null" {
		// encoding/json would leave the value as it is.
		return malformed("null")
	}
	return json.Unmarshal(raw, value)
}

func malformedField(name string, err error) error {
	if errors.Is(err, ErrFormat) {
		return fmt.Errorf("field %q: %w", name, err)
	}
	return malformed("field %q: %w", name, err)
}
