package caproot

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/caproot/caproot/identity"
)

// arguments makes arguments for any method of this package: name for each string
// and path, harmless values for the rest.
type arguments struct {
	r    *Root
	name string
	file *os.File
}

func (a *arguments) of(typ reflect.Type) reflect.Value {
	switch typ {
	case reflect.TypeFor[string]():
		return reflect.ValueOf(a.name)
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(context.Background())
	case reflect.TypeFor[*os.File]():
		return reflect.ValueOf(a.file)
	case reflect.TypeFor[*Root]():
		return reflect.ValueOf(a.r)
	case reflect.TypeFor[Source]():
		return reflect.ValueOf(Source{Root: a.r, Name: a.name})
	case reflect.TypeFor[identity.Receipt]():
		return reflect.ValueOf(identity.Receipt{Path: a.name})
	case reflect.TypeFor[fs.FS]():
		return reflect.ValueOf(fstest.MapFS{"new": {Data: []byte("x")}})
	case reflect.TypeFor[Fence]():
		return reflect.ValueOf(&countingFence{})
	case reflect.TypeFor[fs.WalkDirFunc]():
		return reflect.ValueOf(fs.WalkDirFunc(func(_ string, _ fs.DirEntry, err error) error { return err }))
	}
	if typ.Kind() == reflect.Interface && reflect.TypeFor[*strings.Reader]().Implements(typ) {
		return reflect.ValueOf(strings.NewReader("x"))
	}
	return reflect.Zero(typ)
}

// invoke calls a method and returns its error, or the first that an iterator
// gives.
func (a *arguments) invoke(method reflect.Value) error {
	typ := method.Type()
	var in []reflect.Value
	for i := range typ.NumIn() {
		if typ.IsVariadic() && i == typ.NumIn()-1 {
			break
		}
		in = append(in, a.of(typ.In(i)))
	}
	for _, out := range method.Call(in) {
		switch v := out.Interface().(type) {
		case error:
			return v
		case iter.Seq2[Entry, error]:
			if err := firstError(v); err != nil {
				return err
			}
		case *Batch:
			defer v.Abort()
			return a.invoke(reflect.ValueOf(v.Put))
		case interface{ Close() error }:
			if !out.IsNil() {
				v.Close()
			}
		}
	}
	return nil
}

func firstError(seq iter.Seq2[Entry, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// nameless are the methods of a Root that look at no name.
var nameless = map[string]bool{"Name": true, "Policy": true, "Close": true, "FS": true, "Plugin": true, "Identity": true,
	"Numbers": true, "Revoke": true, "Wait": true, "Spent": true, "Fenced": true, "File": true}

// lacking are policies without the rights for some methods.
var lacking = map[string]struct {
	without Rights
	methods []string // nil: all
}{
	"all rights":       {AllRights, nil},
	"List":             {List, []string{"OpenRoot", "OpenParent", "Grant", "Stat", "Lstat", "Exists", "Lexists", "Readlink", "ReadDir", "Walk", "WalkDir", "Entries", "Glob", "Receipt", "Check", "CheckSame", "Target", "Watch", "Sweep", "CopyTree"}},
	"Read":             {Read, []string{"ReadFile", "AppendFile", "CreateUnnamed"}},
	"Read and List":    {Read | List, []string{"Open", "OpenView", "OpenFile", "OpenFileNoFollow"}},
	"Create, Replace":  {Create | Replace, []string{"Put", "PutFrom", "Stage", "Batch"}},
	"Create, Modify":   {Create | Modify, []string{"Create", "WriteFile", "Append"}},
	"Modify":           {Modify, []string{"Truncate"}},
	"Mkdir":            {Mkdir, []string{"Mkdir", "MkdirAll", "CopyFS"}},
	"Move":             {Move, []string{"Rename", "Move", "MoveSame", "Exchange"}},
	"Replace":          {Replace, []string{"Exchange"}},
	"Remove":           {Remove, []string{"Remove", "RemoveAll", "RemoveTree", "RemoveIf", "RemoveSame", "Sweep"}},
	"Link":             {Link, []string{"Link"}},
	"Symlink":          {Symlink, []string{"Symlink"}},
	"Attrib":           {Attrib, []string{"Chmod", "Chown", "Lchown", "Chtimes"}},
	"Create (unnamed)": {Create, []string{"NameUnnamed", "CreateUnnamed"}},
}

// answersAlike sees that a method refuses every name in the same words.
func answersAlike(t *testing.T, r *Root, what, method string) {
	answer := ""
	for _, name := range []string{"f", "dir", "none", "lk", "in", "out", "dangling", "dir/file", "none/x", "f/x", "out/secret"} {
		if strings.HasSuffix(method, "Temp") && strings.Contains(name, "/") {
			continue // no pattern
		}
		a := arguments{r: r, name: name, file: os.Stdin}
		err := a.invoke(reflect.ValueOf(r).MethodByName(method))
		if !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %s(%q): %v", what, method, name, err)
			continue
		}
		if got := cause(err).Error(); answer == "" {
			answer = got
		} else if got != answer {
			t.Errorf("%s: %s(%q): %s, before: %s", what, method, name, got, answer)
		}
	}
}

// Without the rights for it a method looks at nothing: it gives one answer, which
// is ErrPolicy, whether there is a file, a directory, a link, a FIFO or nothing.
func TestRightsBeforeLooks(t *testing.T) {
	for what, l := range lacking {
		p := Compat()
		p.Rights &^= l.without
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.Symlink("nowhere", base+"/root/dangling"))
			for method := range reflect.TypeFor[*Root]().Methods() {
				if nameless[method.Name] || l.methods != nil && !slices.Contains(l.methods, method.Name) {
					continue
				}
				answersAlike(t, r, "without "+what, method.Name)
			}
		})
	}
	for o, without := range map[*PutOptions]Rights{{NoReplace: true}: Create, {IfMatch: &identity.Receipt{}}: Replace} {
		p := Compat()
		p.Rights &^= without
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			for _, name := range []string{"f", "dir", "none", "lk", "none/x"} {
				_, err := r.Put(name, nil, *o)
				want(t, name, err, ErrPolicy)
			}
		})
	}
}

// A root's own directory is no secret from who has the root.
func TestReopenNeedsNoRight(t *testing.T) {
	p := Compat()
	p.Rights = Create
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		sub, err := r.OpenRoot(".")
		must(t, err)
		defer sub.Close()
		grant, err := r.Grant(".", Grant{Policy: p})
		must(t, err)
		defer grant.Close()
		for _, at := range []*Root{sub, grant} {
			must(t, verbs(at)["Put"]("new"))
			must(t, os.Remove(base+"/root/new"))
		}
	})
}
