package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
)

const (
	fragmentsSuffix = ".d"
	fragmentSuffix  = ".json"
)

// PutFragment publishes a value as the file NAME.d/ID.json below r, and makes the
// directory, with mode 0700, if it is missing. It takes no lock: each id belongs
// to one writer, who puts its fragments one after the other.
//
// An id is a file name without its suffix, in every system's sense, and does not
// begin with a dot: anything else is caproot.ErrName. Ids that differ by case
// only are one file on some systems.
func PutFragment(r *caproot.Root, name, id string, v any, o Options) error {
	file, err := fragmentFile(name, id)
	if err != nil {
		return err
	}
	data, err := encode(file, v)
	if err != nil {
		return err
	}
	_, err = r.Put(file, data, caproot.PutOptions{
		Mode: o.Mode, Durability: o.Durability, MaxBytes: o.MaxBytes, Parents: true, ParentMode: 0o700,
	})
	return err
}

// RemoveFragment removes a fragment of which the caller is the writer. One that
// does not exist is no error.
func RemoveFragment(r *caproot.Root, name, id string) error {
	file, err := fragmentFile(name, id)
	if err != nil {
		return err
	}
	if err = r.Remove(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Fragments lists the ids of the fragments of name, in order. Other files in the
// directory are not listed.
func Fragments(r *caproot.Root, name string) (ids []string, err error) {
	entries, err := r.ReadDir(name + fragmentsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), fragmentSuffix)
		if ok && checkID(id) == nil && e.Type().IsRegular() {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Merge is Update with a function that is called for each fragment of name, in
// the order of the ids. The fragments stay, so to merge again must do no harm. One
// that is removed meanwhile is left out; one that cannot be read ends the merge
// before anything is written.
func Merge[T, F any](ctx context.Context, r *caproot.Root, name string, f func(v *T, id string, fragment F) error, o Options) error {
	return UpdateContext(ctx, r, name, func(_ context.Context, v *T) error {
		ids, err := Fragments(r, name)
		if err != nil {
			return err
		}
		for _, id := range ids {
			file := name + fragmentsSuffix + "/" + id + fragmentSuffix
			data, err := readFile(r, file, o.MaxBytes)
			if err != nil {
				return err
			}
			if data == nil {
				continue
			}
			var fragment F
			if err := decode(file, data, &fragment); err != nil {
				return err
			}
			if err := f(v, id, fragment); err != nil {
				return err
			}
		}
		return nil
	}, o)
}

func fragmentFile(name, id string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	return name + fragmentsSuffix + "/" + id + fragmentSuffix, nil
}

func checkID(id string) error {
	file := id + fragmentSuffix
	shape, err := pathsafe.Parse(file, pathsafe.Portable)
	if err != nil || shape.Leaf != file || shape.Parent != "" || strings.HasPrefix(id, ".") || id == "" {
		return fmt.Errorf("%w: fragment id %s", caproot.ErrName, pathsafe.Quote(id))
	}
	return nil
}
