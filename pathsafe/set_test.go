package pathsafe

import (
	"errors"
	"fmt"
	"testing"
)

func TestSet(t *testing.T) {
	for _, c := range []struct {
		id    string
		names []string // a trailing "/" is a directory
		want  Rule     // of the last; the others are accepted
		other string
	}{
		{"63", []string{"FOO/", "foo"}, Collision, "FOO"},
		{"63", []string{"FOO/", "FOO/x"}, "", ""},
		{"63", []string{"foo", "FOO/x"}, Collision, "foo"},
		{"63", []string{"foo", "foo/x"}, FileAsDirectory, "foo"},
		{"63", []string{"foo/x", "foo"}, FileAsDirectory, "foo"},
		{"63", []string{"foo/x", "foo/"}, "", ""},
		{"63", []string{"foo/", "foo/", "foo/."}, "", ""},
		{"63", []string{"A/x", "a/y"}, Collision, "A"},
		{"63", []string{"a/b/c", "a/B"}, Collision, "a/b"},
		{"63", []string{"a/na\u00efve", "a/nai\u0308ve"}, Collision, "a/na\u00efve"},
		{"63", []string{"a", "b", "c/d", "c/e"}, "", ""},
		{"55", []string{".git/", ".g\u200cit"}, Collision, ".git"},
		{"60", []string{"x/y", "x/y"}, Duplicate, "x/y"},
		{"60", []string{"x/y", "./x//y"}, Duplicate, "x/y"},
		{"60", []string{"a/../b"}, Dots, ""},
		{"60", []string{"a\x00b"}, NUL, ""},
		{"61", []string{""}, Empty, ""},
		{"61", []string{"/"}, Absolute, ""},
		{"61", []string{"./", "."}, "", ""},
		{"67", []string{"a\xff", "a\xfe"}, "", ""},
		{"67", []string{"a\xff", "A\xff"}, Collision, "a\xff"},
	} {
		var s Set
		last := len(c.names) - 1
		for _, name := range c.names[:last] {
			if err := s.Add(name, false); err != nil {
				t.Errorf("case %s: Add(%q): %v", c.id, name, err)
			}
		}
		err := s.Add(c.names[last], false)
		if got := ruleOf(t, err); got != c.want {
			t.Errorf("case %s: Add(%q) after %q: rule %q, want %q", c.id, c.names[last], c.names[:last], got, c.want)
		}
		var e *Error
		if errors.As(err, &e) && e.Other != c.other {
			t.Errorf("case %s: Add(%q) is in the way of %q, want %q", c.id, c.names[last], e.Other, c.other)
		}
	}
}

func TestSetRefusalNotesNothing(t *testing.T) {
	var s Set
	for _, name := range []string{"a/b", "A/c"} {
		s.Add(name, false)
	}
	if err := s.Add("a/C", false); err != nil {
		t.Errorf("a refused name is in the way: %v", err)
	}
	if err := s.Add("a/b/new/x", false); ruleOf(t, err) != FileAsDirectory {
		t.Errorf("a file as directory: %v", err)
	}
	if len(s.seen) != 3 {
		t.Errorf("the set has %d names, want a, a/b and a/C: %v", len(s.seen), s.seen)
	}
}

func TestSetDirArgument(t *testing.T) {
	var s Set
	if err := s.Add("d", true); err != nil {
		t.Fatal(err)
	}
	if err := s.Add("d/x", false); err != nil {
		t.Error(err)
	}
	if err := s.Add("d", true); err != nil {
		t.Errorf("a directory again: %v", err)
	}
	if err := s.Add("d/x", true); ruleOf(t, err) != FileAsDirectory {
		t.Errorf("a directory where a file is: %v", err)
	}
}

func BenchmarkSetAdd(b *testing.B) {
	var s Set
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Add(fmt.Sprintf("src/pkg%d/file%d.go", i%1000, i), false); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
