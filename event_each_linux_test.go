package caproot

import (
	"iter"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// untold are the methods of a Root that tell nothing themselves, and why.
var untold = map[string]string{
	"Name": "answers from memory", "Policy": "answers from memory", "Numbers": "answers from memory", "Spent": "answers from memory",
	"FS": "a view whose methods tell", "Plugin": "a view whose methods tell", "Batch": "its Put and Commit tell",
	"Close": "lets go", "Wait": "waits", "Revoke": "is told as caproot.revoked",
}

// toldAs are the verbs that a method is told as, where it is not its own name.
var toldAs = map[string][]string{
	"OpenView": {"open"}, "OpenFile": {"open"}, "OpenFileNoFollow": {"open"}, "Create": {"open"},
	"ReadFile": {"read"}, "AppendFile": {"read"}, "WriteFile": {"open"}, "PutFrom": {"put"}, "Stage": {"put"},
	"Entries": {"walk"}, "WalkDir": {"stat", "walk"}, "Glob": {"glob", "walk", "lstat"},
	"Exists": {"stat"}, "CreateTemp": {"createtemp", "open"}, "MkdirTemp": {"mkdirtemp", "mkdir"},
}

// parts are what else may be told during a method: files, directories and links
// of a copy, and the reading of its source.
var parts = map[string][]string{
	"CopyIn": {"read"}, "CopyTree": {"walk", "read", "readlink", "copyin", "mkdir", "symlink", "link"}, "CopyFS": {"put", "mkdirall", "symlink"},
}

// about are the events of a method itself. What is neither that nor a part of it
// is an error.
func (l *listener) about(t *testing.T, method string) (own []Event) {
	t.Helper()
	verbs := toldAs[method]
	if verbs == nil {
		verbs = []string{strings.ToLower(method)}
	}
	for _, e := range l.events {
		switch {
		case slices.Contains(verbs, e.Verb):
			own = append(own, e)
		case !slices.Contains(parts[method], e.Verb):
			t.Errorf("%s also tells %s %s %s %s", method, e.Name, e.Verb, e.Path, e.Code)
		}
	}
	return own
}

// conditions are those under which each method is called, with the code of the
// answer that each method which is concerned has then; "" is any answer.
var conditions = map[string]struct {
	prepare func(g *Grant)
	revoke  bool
	void    bool // nil for whatever may be nil
	names   []string
	code    string
	spared  []string // not concerned, beside those that look at no name
}{
	"as it is":  {names: []string{"f", "dir", "none", "none/x", "lk", "dir/file"}},
	"bad name":  {names: []string{"a\x00b"}, code: "name"},
	"no name":   {names: []string{""}},
	"escape":    {names: []string{"../x", "/f"}, code: "escape", spared: []string{"CreateTemp", "MkdirTemp"}},
	"link out":  {names: []string{"out/secret"}},
	"no rights": {names: []string{"f", "none"}, code: "policy", prepare: func(g *Grant) { g.Policy.Rights = 0 }},
	"denied":    {names: []string{"f", "dir"}, code: "policy", prepare: func(g *Grant) { g.Deny = []string{"f", "dir"} }},
	"no budget": {names: []string{"f", "none"}, prepare: func(g *Grant) { g.Budget = &Budget{} }},
	"revoked":   {names: []string{"f", "none"}, code: "revoked", revoke: true},
	"nil":       {names: []string{"f", "none"}, void: true, code: "option"},
}

// void makes nil of each argument that may be.
func (a *arguments) void(method reflect.Value) (in []reflect.Value, any bool) {
	for typ := range method.Type().Ins() {
		switch typ.Kind() {
		case reflect.Interface, reflect.Func, reflect.Pointer:
			in, any = append(in, reflect.Zero(typ)), true
		default:
			in = append(in, a.of(typ))
		}
	}
	return in, any
}

// Each call on a grant is told once, with the outcome that its caller gets:
// success, refusal by name, right, Deny, budget or revocation, and a nil argument.
func TestEachMethodIsToldOnce(t *testing.T) {
	for what, when := range conditions {
		for method := range reflect.TypeFor[*Root]().Methods() {
			if untold[method.Name] != "" {
				continue
			}
			for _, name := range when.names {
				t.Run(what+"/"+method.Name+"/"+strings.ReplaceAll(name, "/", "_"), func(t *testing.T) { toldOnce(t, what, method.Name, name) })
			}
		}
	}
}

func toldOnce(t *testing.T, what, method, name string) {
	when, base := conditions[what], t.TempDir()
	must(t, os.MkdirAll(base+"/root", 0o755))
	must(t, os.Mkdir(base+"/outside", 0o755))
	renew(t, base)
	must(t, os.Symlink("../outside", base+"/root/out"))
	r, err := Open(base+"/root", Compat())
	must(t, err)
	defer r.Close()
	var l listener
	g := Grant{Policy: Compat(), Observe: l.hear}
	if when.prepare != nil {
		when.prepare(&g)
	}
	sub, err := r.Grant(".", g)
	must(t, err)
	defer sub.Close()
	defer os.Chmod(base+"/root/dir", 0o700) // it may have got a mode that keeps its owner out
	if when.revoke {
		sub.Revoke()
	}
	l.events = nil
	a := arguments{r: sub, name: name, file: os.Stdin}
	call := reflect.ValueOf(sub).MethodByName(method)
	if when.void {
		in, any := a.void(call)
		if !any {
			return
		}
		err = outcomeOf(call, in)
	} else {
		err = a.invoke(call)
	}
	if code := Code(err); when.code != "" && code != when.code && !(nameless[method] && !when.revoke && !when.void) && !slices.Contains(when.spared, method) {
		t.Errorf("the answer has code %q: %v", code, err)
	}
	own := l.about(t, method)
	switch {
	case method == "Stage" && err == nil && len(own) == 0: // told at Commit
	case method == "WalkDir" && len(own) == 2 && own[0].Name == EventDone: // of two calls
		own = own[1:]
		fallthrough
	default:
		answersAs(t, method, own, err)
	}
}

// outcomeOf is the error of a call, or the first that its iterator gives.
func outcomeOf(method reflect.Value, in []reflect.Value) error {
	call := method.Call
	if method.Type().IsVariadic() {
		call = method.CallSlice
	}
	for _, out := range call(in) {
		switch v := out.Interface().(type) {
		case error:
			return v
		case iter.Seq2[Entry, error]:
			return firstError(v)
		}
	}
	return nil
}

// answersAs compares the one event with what the caller got.
func answersAs(t *testing.T, method string, own []Event, err error) {
	t.Helper()
	if len(own) != 1 {
		t.Errorf("told %d times: %v, answer %v", len(own), own, err)
		return
	}
	// Exists, Glob and RemoveAll may take absence for an answer.
	if code := Code(err); own[0].Code != code && !(code == "" && slices.Contains([]string{"not-exist", "not-dir"}, own[0].Code)) {
		t.Errorf("told code %q, the caller got %q: %v", own[0].Code, code, err)
	}
}

// A move to another file system tells what its copy reads and makes, and itself.
func TestEventsOfMoveAcross(t *testing.T) {
	eachDevice(t, "size=1m", func(t *testing.T, r *Root, base string) {
		var l listener
		sub, err := r.Grant(".", Grant{Policy: Compat(), Observe: l.hear})
		must(t, err)
		defer sub.Close()
		_, err = sub.Move("dir", "m/dir", MoveOptions{CrossDevice: true})
		must(t, err)
		_, err = sub.Move("f", "m/f", MoveOptions{CrossDevice: true})
		must(t, err)
		l.told(t, "caproot.granted grant", "caproot.done copyin", "caproot.done read", "caproot.done walk", "caproot.done move",
			"caproot.done copyin", "caproot.done move")
	})
}
