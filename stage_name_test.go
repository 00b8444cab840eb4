package caproot

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// notStages are names that begin as those of stages do, and are others'.
const notStages = stagePrefix + " " + stagePrefix + "notes.txt " + stagePrefix + "abcdefghijklmnopqrstuvwxyz " + stagePrefix + "ABCDEFGHIJKLMNOPQRSTUVWXY " +
	stagePrefix + "ABCDEFGHIJKLMNOPQRSTUVWXYZA " + stagePrefix + "ABCDEFGHIJKLMNOPQRSTUVWXY1 " + deadStage + ".txt x" + deadStage + " " +
	markedPrefix + " " + markedPrefix + "1-ABCDEFGHIJKLMNOPQRSTUVWXYZ " + markedPrefix + "01-none-ABCDEFGHIJKLMNOPQRSTUVWXYZ " +
	markedPrefix + "1-1.2.3-ABCDEFGHIJKLMNOPQRSTUVWXYZ " + markedPrefix + "1-1.2.3.x-ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func TestStageNames(t *testing.T) {
	st := status{ino: 7, size: 5, mtime: stamp{-3, 999}}
	for _, name := range []string{newStageName(), deadStage, marks(&st, noSeal) + strings.Repeat("A", 26), marks(&st, sealOf(&st)) + strings.Repeat("A", 26)} {
		if !isStageName(name) || len(name) > 255 || !isStage(name, &st) {
			t.Errorf("%s is no stage's name", name)
		}
	}
	for name := range strings.FieldsSeq(notStages) {
		if isStageName(name) {
			t.Errorf("%s is a stage's name", name)
		}
	}
	other := st
	for what, change := range map[string]func(){"number": func() { other.ino++ }, "size": func() { other.size++ }, "time": func() { other.mtime.nsec++ }} {
		other = st
		change()
		if isStage(marks(&status{ino: 1}, sealOf(&st))+strings.Repeat("A", 26), &other) {
			t.Errorf("another %s is taken for the object that was to be displaced", what)
		}
	}
}

// No verb makes a name that a sweep would take for a stage's, and refuses before
// it has made a parent.
func TestStageNamesAreReserved(t *testing.T) {
	for _, granted := range []bool{false, true} {
		eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
			sub := r
			if granted {
				var err error
				sub, err = r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}, Before: func(Mutation) error { return nil }})
				must(t, err)
				defer sub.Close()
			}
			marked := markedPrefix + "7-none-" + strings.Repeat("A", 26)
			before := seal(t, base+"/root")
			for _, name := range []string{deadStage, "dir/" + deadStage, linked(t) + "/" + marked, "dir/../" + deadStage} {
				for verb, call := range makers(sub) {
					err := call(name)
					if !errors.Is(err, ErrName) {
						t.Errorf("%s(%s): %v", verb, name, err)
					}
				}
			}
			for _, name := range []string{"new/" + deadStage, deadStage + "/new"} {
				_, err := sub.Put(name, nil, PutOptions{Parents: true})
				want(t, "Put "+name, err, ErrName)
			}
			want(t, "MkdirAll", sub.MkdirAll(deadStage+"/new", 0o700), ErrName)
			if after := seal(t, base+"/root"); after != before {
				t.Errorf("the root changed:\n%s\nwas\n%s", after, before)
			}
			// What is there can be looked at, saved and removed.
			for _, name := range []string{"kept", "gone"} {
				must(t, os.WriteFile(base+"/root/"+deadStage, []byte(name), 0o600))
				_, err := sub.ReadFile(deadStage)
				must(t, err)
				if name == "kept" {
					must(t, sub.Rename(deadStage, name))
				} else {
					must(t, sub.Remove(deadStage))
				}
			}
		})
	}
}

// makers are the verbs that give something a name.
func makers(r *Root) map[string]func(string) error {
	of := func(_ any, err error) error { return err }
	return map[string]func(string) error{
		"Put":   func(n string) error { return of(r.Put(n, nil, PutOptions{})) },
		"Stage": func(n string) error { return of(r.Stage(n, PutOptions{})) },
		"Batch": func(n string) error { return r.Batch(BatchOptions{}).Put(n, nil, PutOptions{}) },
		"CopyIn": func(n string) error {
			return of(r.CopyIn(context.Background(), n, Source{Root: r, Name: "f"}, CopyOptions{}))
		},
		"Append":    func(n string) error { return of(r.Append(n, []byte("x"), AppendOptions{})) },
		"WriteFile": func(n string) error { return r.WriteFile(n, nil, 0o600) },
		"OpenView":  func(n string) error { return of(r.OpenView(n, os.O_CREATE|os.O_WRONLY, 0o600)) },
		"Mkdir":     func(n string) error { return r.Mkdir(n, 0o700) },
		"MkdirAll":  func(n string) error { return r.MkdirAll(n, 0o700) },
		"Symlink":   func(n string) error { return r.Symlink("f", n) },
		"Link":      func(n string) error { return r.Link("f", n) },
		"Rename":    func(n string) error { return r.Rename("f", n) },
		"Move":      func(n string) error { return of(r.Move("dir/file", n, MoveOptions{})) },
	}
}
