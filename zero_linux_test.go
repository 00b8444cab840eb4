package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"testing"
)

// answersZero sees that a method of a value that is none does not panic, and that
// its error, if it has one, tells what is wrong.
func answersZero(t *testing.T, what string, value reflect.Value) {
	t.Helper()
	for method := range value.Type().Methods() {
		name := what + "." + method.Name
		failed := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s panics: %v", name, p)
				}
			}()
			a := arguments{r: &Root{}, name: "f", file: os.Stdin}
			return a.invoke(value.MethodByName(method.Name))
		}()
		var path *fs.PathError
		var link *os.LinkError
		switch returns := lastIsError(method.Type); {
		case failed == nil && returns:
			t.Errorf("%s succeeds", name)
		case failed != nil && !errors.Is(failed, fs.ErrInvalid) && !errors.Is(failed, fs.ErrClosed):
			t.Errorf("%s: %v", name, failed)
		case failed != nil && !errors.As(failed, &path) && !errors.As(failed, &link):
			t.Errorf("%s: %v is bare", name, failed)
		}
	}
}

func lastIsError(typ reflect.Type) bool {
	n := typ.NumOut()
	return n > 0 && typ.Out(n-1) == reflect.TypeFor[error]()
}

func TestZeroValues(t *testing.T) {
	for what, value := range map[string]any{
		"nil Root": (*Root)(nil), "zero Root": &Root{}, "nil File": (*File)(nil), "zero File": &File{},
		"nil Staged": (*Staged)(nil), "zero Staged": &Staged{}, "nil Batch": (*Batch)(nil), "zero Batch": &Batch{},
		"nil Watch": (*Watch)(nil), "zero Watch": &Watch{}, "zero Entry": Entry{},
		"FS of nil": (*Root)(nil).FS(), "FS of zero": (&Root{}).FS(), "Plugin of nil": (*Root)(nil).Plugin(), "Plugin of zero": (&Root{}).Plugin(),
	} {
		answersZero(t, what, reflect.ValueOf(value))
	}
	for what, open := range map[string]func() (*Root, error){
		"FromFile":         func() (*Root, error) { return FromFile(nil, Compat()) },
		"FromFile, zero":   func() (*Root, error) { return FromFile(&os.File{}, Compat()) },
		"FromOSRoot":       func() (*Root, error) { return FromOSRoot(nil, Compat()) },
		"FromOSRoot, zero": func() (*Root, error) { return FromOSRoot(&os.Root{}, Compat()) },
	} {
		_, err := open()
		want(t, what, err, fs.ErrInvalid)
	}
}

// What may not be nil and is leaves everything as it was.
func TestNilArguments(t *testing.T) {
	var none context.Context
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		before := tree(t, base+"/root")
		batch, zero := r.Batch(BatchOptions{}), &os.File{}
		defer batch.Abort()
		for what, err := range map[string]error{
			"PutFrom, context":  errOf(r.PutFrom(none, "f", os.Stdin, PutOptions{})),
			"PutFrom, source":   errOf(r.PutFrom(context.Background(), "f", nil, PutOptions{})),
			"Batch.PutFrom":     batch.PutFrom(none, "f", os.Stdin, PutOptions{}),
			"Batch.Commit":      errOf(batch.Commit(none)),
			"RemoveTree":        errOf(r.RemoveTree(none, "dir", TreeLimits{})),
			"CopyIn":            errOf(r.CopyIn(none, "new", Source{Root: r, Name: "f"}, CopyOptions{})),
			"CopyIn, file":      errOf(r.CopyIn(context.Background(), "new", Source{}, CopyOptions{})),
			"CopyTree":          errOf(r.CopyTree(none, "new", r, "dir", TreeCopyOptions{})),
			"CopyTree, source":  errOf(r.CopyTree(context.Background(), "new", nil, "dir", TreeCopyOptions{})),
			"CopyFS":            r.CopyFS("new", nil),
			"Walk":              firstError(r.Walk(none, ".", WalkOptions{})),
			"Entries":           firstError(r.Entries(none, ".")),
			"Wait":              r.Wait(none),
			"Fenced":            errOf(r.Fenced(nil)),
			"CheckSame, file":   r.CheckSame("f", nil),
			"RemoveSame, file":  r.RemoveSame("f", nil),
			"MoveSame, file":    r.MoveSame("f", "g", nil),
			"NameUnnamed, file": r.NameUnnamed(nil, "g"),
			"CheckSame, zero":   r.CheckSame("f", zero),
			"RemoveSame, zero":  r.RemoveSame("f", zero),
			"MoveSame, zero":    r.MoveSame("f", "g", zero),
			"NameUnnamed, zero": r.NameUnnamed(zero, "g"),
			"CopyIn, zero":      errOf(r.CopyIn(context.Background(), "new", Source{File: zero}, CopyOptions{})),
		} {
			var path *fs.PathError
			var link *os.LinkError
			if !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrClosed) || !errors.As(err, &path) && !errors.As(err, &link) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if after := tree(t, base+"/root"); after != before {
			t.Errorf("the tree is now\n%swas\n%s", after, before)
		}
	})
}
