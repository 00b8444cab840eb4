package caproot

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"
)

// windowVerbs has what is attacked in every window and has no place in the table
// of verbs: calls that name a directory, that need several steps, or that leave
// a random name.
func windowVerbs(r *Root) map[string]func(name string) error {
	return map[string]func(string) error{
		"AppendFile": func(n string) error {
			data, err := r.AppendFile(nil, n)
			return ifSecret(data, err)
		},
		"PutFrom": func(n string) error {
			_, err := r.PutFrom(context.Background(), n, strings.NewReader("x"), PutOptions{})
			return err
		},
		"Stage": func(n string) error {
			s, err := r.Stage(n, PutOptions{})
			if err != nil {
				return err
			}
			defer s.Close()
			if _, err := io.WriteString(s, "x"); err != nil {
				return err
			}
			_, err = s.Commit()
			return err
		},
		"CreateTemp": func(n string) error {
			f, _, err := r.CreateTemp(aboveVictim(n), "temp")
			if err == nil {
				f.Close()
			}
			return err
		},
		"MkdirTemp": func(n string) error { _, err := r.MkdirTemp(aboveVictim(n), "temp"); return err },
		"Entries": func(n string) error {
			for e, err := range r.Entries(context.Background(), aboveVictim(n)) {
				if err != nil {
					return err
				}
				if e.Name() == "secret" {
					return errSawOutside
				}
			}
			return nil
		},
		"Grant":     func(n string) error { return grantAndUse(r, n, Grant{Policy: r.Policy()}) },
		"GrantDeny": func(n string) error { return grantAndUse(r, n, Grant{Policy: r.Policy(), Deny: []string{"other"}}) },
	}
}

// grantAndUse grants the directory of a name and uses it.
func grantAndUse(r *Root, name string, g Grant) error {
	sub, err := r.Grant(aboveVictim(name), g)
	if err != nil {
		return err
	}
	defer sub.Close()
	leaf := path.Base(name)
	data, err := sub.ReadFile(leaf)
	if ifSecret(data, nil) != nil {
		return errSawOutside
	}
	if _, perr := sub.Put("made", []byte("x"), PutOptions{}); err == nil {
		err = perr
	}
	if entries, lerr := sub.ReadDir("."); lerr == nil {
		for _, e := range entries {
			if e.Name() == "secret" {
				return errSawOutside
			}
		}
	}
	return errors.Join(err, sub.Mkdir("made.d", 0o755), sub.Remove("made.d"))
}

// ifSecret is errSawOutside for what only the outside holds.
func ifSecret(data []byte, err error) error {
	if string(data) == "secret" {
		return errSawOutside
	}
	return err
}
