package identity

import "fmt"

// Containment tells how a path was kept inside its root.
type Containment uint8

const (
	// KernelAtomic: the kernel resolved the whole path to the directory acted in
	// in one call (openat2, Linux 5.6), or there was nothing to resolve.
	KernelAtomic Containment = iota
	// Walked: each component was opened relative to a retained handle, no link
	// followed by the kernel. A directory moved meanwhile is still the one walked.
	Walked
)

// Durability tells what is on stable storage when a call returns. Whether the
// device keeps what it acknowledged is beyond the operating system.
type Durability uint8

const (
	// DurabilityDefault is DurabilityDir in a policy, and the policy's own in options.
	DurabilityDefault Durability = iota
	// DurabilityDir: the content, and the directory entry that names it.
	DurabilityDir
	// DurabilityFile: the content. After a loss of power the name may show the old one.
	DurabilityFile
	// DurabilityNone: what the kernel wrote by itself.
	DurabilityNone
	// DurabilityVolatile: as None, and a replacement may skip the flush that some
	// file systems do at rename, so that a loss of power may leave an empty file.
	DurabilityVolatile
)

// OrDir spells the default of a policy out.
func (d Durability) OrDir() Durability {
	if d == DurabilityDefault {
		return DurabilityDir
	}
	return d
}

// Publication tells how a name came to its object.
type Publication uint8

const (
	// Unpublished: the call published nothing.
	Unpublished Publication = iota
	// Created: the name was free.
	Created
	// Renamed: the name was given over from what it held, at once.
	Renamed
	// Swapped: exchanged; what was displaced was inspected, and it was the
	// expected object.
	Swapped
	// Checked: the expected object was seen, then replaced. A change between the
	// two is not noticed.
	Checked
	// InPlace: the object kept its name and changed.
	InPlace
)

var (
	verdicts     = names[Verdict]{"unknown", "same", "different"}
	containments = names[Containment]{"kernel-atomic", "walked"}
	durabilities = names[Durability]{"default", "dir", "file", "none", "volatile"}
	publications = names[Publication]{"unpublished", "created", "renamed", "swapped", "checked", "in-place"}
)

// String gives the stable name.
func (v Verdict) String() string     { return verdicts.text(v) }
func (c Containment) String() string { return containments.text(c) }
func (d Durability) String() string  { return durabilities.text(d) }
func (p Publication) String() string { return publications.text(p) }

// ParseVerdict returns an error that wraps ErrFormat for a name it does not know.
func ParseVerdict(s string) (Verdict, error) { return verdicts.parse(s) }

// ParseContainment returns an error that wraps ErrFormat for a name it does not know.
func ParseContainment(s string) (Containment, error) { return containments.parse(s) }

// ParseDurability returns an error that wraps ErrFormat for a name it does not know.
func ParseDurability(s string) (Durability, error) { return durabilities.parse(s) }

// ParsePublication returns an error that wraps ErrFormat for a name it does not know.
func ParsePublication(s string) (Publication, error) { return publications.parse(s) }

// MarshalText writes the stable name, and returns an error that wraps ErrFormat
// for a value that has none.
func (v Verdict) MarshalText() ([]byte, error)     { return verdicts.marshal(v) }
func (c Containment) MarshalText() ([]byte, error) { return containments.marshal(c) }
func (d Durability) MarshalText() ([]byte, error)  { return durabilities.marshal(d) }
func (p Publication) MarshalText() ([]byte, error) { return publications.marshal(p) }

// UnmarshalText reads the stable name. It returns an error that wraps ErrFormat
// for another text and then leaves the value alone: the zero Containment is the
// strongest claim and must not come from a failure.
func (v *Verdict) UnmarshalText(text []byte) error     { return verdicts.unmarshal(text, v) }
func (c *Containment) UnmarshalText(text []byte) error { return containments.unmarshal(text, c) }
func (d *Durability) UnmarshalText(text []byte) error  { return durabilities.unmarshal(text, d) }
func (p *Publication) UnmarshalText(text []byte) error { return publications.unmarshal(text, p) }

// names are the stable texts of an enumeration, in the order of its values.
type names[T ~uint8] []string

func (n names[T]) text(v T) string {
	if int(v) < len(n) {
		return n[v]
	}
	return fmt.Sprintf("invalid(%d)", uint8(v))
}

func (n names[T]) marshal(v T) ([]byte, error) {
	if int(v) >= len(n) {
		return nil, fmt.Errorf("%w: %d is none of %q", ErrFormat, uint8(v), n)
	}
	return []byte(n[v]), nil
}

func (n names[T]) parse(s string) (T, error) {
	for i, name := range n {
		if name == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%w: %.60q is none of %q", ErrFormat, s, n)
}

func (n names[T]) unmarshal(text []byte, into *T) error {
	v, err := n.parse(string(text))
	if err == nil {
		*into = v
	}
	return err
}
