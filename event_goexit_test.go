package caproot

import (
	"context"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caproot/caproot/identity"
)

// A call that a callback ends with its goroutine is told as failed, once; one that is
// made while the goroutine ends is told as it went.
func TestEventOfGoexit(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		exit := func() { runtime.Goexit() }
		for what, c := range map[string]struct {
			verb string
			call func(sub *Root)
		}{
			"Before of Mkdir":      {"mkdir", func(sub *Root) { sub.Mkdir("new", 0o700) }},
			"Before of Remove":     {"remove", func(sub *Root) { sub.Remove("f") }},
			"Before of Move":       {"move", func(sub *Root) { sub.Move("f", "g", MoveOptions{}) }},
			"Before of RemoveTree": {"removetree", func(sub *Root) { sub.RemoveTree(context.Background(), "dir", TreeLimits{}) }},
			"Before of Put":        {"put", func(sub *Root) { sub.Put("f", nil, PutOptions{}) }},
			"Before of MkdirAll":   {"mkdirall", func(sub *Root) { sub.MkdirAll("a/b", 0o700) }},
			"Before of OpenFile":   {"open", func(sub *Root) { sub.Create("new") }},
			"Copied": {"copytree", func(sub *Root) {
				sub.CopyTree(context.Background(), "copy", r, "dir", TreeCopyOptions{Copied: func(identity.Receipt) { exit() }})
			}},
			"Progress": {"copytree", func(sub *Root) {
				sub.CopyTree(context.Background(), "copy", r, "dir", TreeCopyOptions{File: CopyOptions{Progress: func(int64, int64) { exit() }}})
			}},
			"a loop": {"walk", func(sub *Root) {
				for range sub.Walk(context.Background(), ".", WalkOptions{}) {
					exit()
				}
			}},
			"a filter": {"walk", func(sub *Root) {
				for range sub.Walk(context.Background(), ".", WalkOptions{Filter: func(Entry) WalkStep { exit(); return WalkTake }}) {
				}
			}},
			"WalkDir": {"walk", func(sub *Root) {
				sub.WalkDir(".", func(path string, _ fs.DirEntry, _ error) error {
					if path != "." {
						exit()
					}
					return nil
				})
			}},
		} {
			var heard []Event
			before := exit
			if !strings.HasPrefix(what, "Before") {
				before = func() {}
			}
			sub, err := r.Grant(".", Grant{Policy: Workspace(), Observe: func(e Event) { heard = append(heard, e) },
				Before: func(Mutation) error { before(); return nil }})
			must(t, err)
			ended := make(chan bool)
			go func() {
				defer close(ended)
				defer sub.Exists("f")
				c.call(sub)
				t.Errorf("%s: came back", what)
			}()
			<-ended
			mine := slices.DeleteFunc(heard, func(e Event) bool { return e.Verb != c.verb && e.Verb != "stat" })
			if n := len(mine); n < 2 || mine[n-2].Verb != c.verb || mine[n-2].Err != errExited || mine[n-2].Name != EventFailed ||
				mine[n-1].Verb != "stat" || mine[n-1].Name != EventDone {
				t.Errorf("%s: told %+v", what, mine)
			}
			must(t, sub.Close())
			r.RemoveAll("copy")
		}
	})
}
