package identity_test

import (
	"encoding"
	"errors"
	"fmt"
	"testing"

	"github.com/caproot/caproot/identity"
)

// term is what the four enumerations share.
type term[T any] interface {
	*T
	fmt.Stringer
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

func testTerm[T ~uint8, P term[T]](t *testing.T, parse func(string) (T, error), texts ...string) {
	t.Helper()
	for i, want := range texts {
		v := T(i)
		if got := P(&v).String(); got != want {
			t.Errorf("%T(%d) is %q, want %q", v, i, got, want)
		}
		text, err := P(&v).MarshalText()
		if err != nil || string(text) != want {
			t.Errorf("%T(%d) writes %q, %v", v, i, text, err)
		}
		var back T
		if err := P(&back).UnmarshalText(text); err != nil || back != v {
			t.Errorf("%q reads as %v, %v", text, back, err)
		}
		if got, err := parse(want); err != nil || got != v {
			t.Errorf("%q parses as %v, %v", want, got, err)
		}
	}
	beyond := T(len(texts))
	if text, err := P(&beyond).MarshalText(); !errors.Is(err, identity.ErrFormat) {
		t.Errorf("%T(%d) writes %q, %v, want ErrFormat", beyond, beyond, text, err)
	}
	if got, want := P(&beyond).String(), fmt.Sprintf("invalid(%d)", len(texts)); got != want {
		t.Errorf("%T(%d) is %q", beyond, beyond, got)
	}
	// A failure must leave the last, weakest value: the zero one may be the
	// strongest claim.
	last := T(len(texts) - 1)
	for _, bad := range []string{"", "KERNEL-ATOMIC", "0", texts[0] + " ", beyondText} {
		v := last
		if err := P(&v).UnmarshalText([]byte(bad)); !errors.Is(err, identity.ErrFormat) || v != last {
			t.Errorf("%q reads as %v, %v", bad, v, err)
		}
	}
}

const beyondText = "invalid(9)"

func TestTerms(t *testing.T) {
	testTerm(t, identity.ParseVerdict, "unknown", "same", "different")
	testTerm(t, identity.ParseContainment, "kernel-atomic", "walked")
	testTerm(t, identity.ParseDurability, "default", "dir", "file", "none", "volatile")
	testTerm(t, identity.ParsePublication, "unpublished", "created", "renamed", "swapped", "checked", "in-place")
}

func TestDurabilityOrDir(t *testing.T) {
	for d := identity.DurabilityDefault; d <= identity.DurabilityVolatile; d++ {
		want := d
		if d == identity.DurabilityDefault {
			want = identity.DurabilityDir
		}
		if got := d.OrDir(); got != want {
			t.Errorf("%v.OrDir() = %v, want %v", d, got, want)
		}
	}
}
