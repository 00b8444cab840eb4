package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// errThrown is what the callbacks of these tests panic with.
var errThrown = errors.New("thrown")

// thrown runs call and tells whether it panicked with errThrown.
func thrown(t *testing.T, call func()) (panicked bool) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			if panicked = v == errThrown; !panicked {
				t.Errorf("panicked with %v", v)
			}
		}
	}()
	call()
	return false
}

// sound sees that a grant on which a call panicked holds nothing any more.
func sound(t *testing.T, what string, sub *Root, base string, fds int) {
	t.Helper()
	if after := openFDs(t); after != fds {
		t.Errorf("%s: descriptors: %d before, %d after", what, fds, after)
	}
	must(t, filepath.WalkDir(base+"/root", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			noStageIn(t, path)
		}
		return err
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := sub.Wait(ctx); err != nil {
		t.Errorf("%s: Wait: %v", what, err)
	}
	closed := make(chan error, 1)
	go func() { closed <- sub.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-ctx.Done():
		t.Fatalf("%s: Close waits for ever", what)
	}
}

// A Before that panics, at whichever of its calls: the panic comes through, and
// the call lets go of all that it held.
func TestPanicInBefore(t *testing.T) {
	workers := []string{"RemoveTree4", "CopyTreeFrom"} // a panic of their goroutines ends the program
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			for verb := range verbs(nil) {
				if reading[verb] || slices.Contains(workers, verb) {
					continue
				}
				for _, name := range []string{"f", "dir/file", "dir/new", "new/er", "lk"} {
					for n, more := 1, true; more; n++ {
						more = throwAt(t, r, base, verb, name, n)
					}
				}
			}
		})
	}
}

// throwAt has the n-th question of a verb panic, and tells whether there was one.
func throwAt(t *testing.T, r *Root, base, verb, name string, n int) bool {
	t.Helper()
	renew(t, base)
	fds := openFDs(t) + 1
	sub, err := r.Grant(".", Grant{Policy: r.policy, Budget: &Budget{NoLimit, NoLimit}, Before: func(Mutation) error {
		if n--; n == 0 {
			panic(errThrown)
		}
		return nil
	}})
	must(t, err)
	panicked := thrown(t, func() { verbs(sub)[verb](name) })
	sound(t, verb+" "+name, sub, base, fds)
	return panicked
}

// renew empties the root and makes f, dir/file and lk -> f anew.
func renew(t *testing.T, base string) {
	t.Helper()
	enterable(t, base+"/root")
	for _, name := range listed(t, base+"/root") {
		must(t, os.RemoveAll(base+"/root/"+name))
	}
	must(t, os.Mkdir(base+"/root/dir", 0o755))
	must(t, os.Symlink("f", base+"/root/lk"))
	for _, file := range []string{"f", "dir/file"} {
		must(t, os.WriteFile(base+"/root/"+file, []byte(file), 0o600))
	}
}

// enterable lets the owner remove what is in the directories below dir, whatever
// modes the verbs gave them.
func enterable(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	}))
}

// A Commit that panics gives its publication up.
func TestPanicInCommit(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"f", "new"} {
			fds := openFDs(t) + 1
			sub, err := r.Grant(".", Grant{Policy: Workspace(), Budget: &Budget{10, 10}, Before: func(m Mutation) error {
				if m.Step == StepPublish {
					panic(errThrown)
				}
				return nil
			}})
			must(t, err)
			s, err := sub.Stage(name, PutOptions{})
			must(t, err)
			_, err = s.Write([]byte("12345"))
			must(t, err)
			if !thrown(t, func() { s.Commit() }) {
				t.Error("no panic")
			}
			_, err = s.Commit()
			want(t, "Commit again", err, os.ErrClosed)
			must(t, s.Abort())
			b := sub.Batch(BatchOptions{})
			must(t, b.Put(name, []byte("1"), PutOptions{}))
			must(t, b.Put("other", []byte("2"), PutOptions{}))
			if !thrown(t, func() { b.Commit(context.Background()) }) {
				t.Error("no panic")
			}
			if spent := sub.Spent(); spent != (Budget{}) {
				t.Errorf("spent %+v", spent)
			}
			sound(t, "Commit", sub, base, fds)
		}
		holds(t, base+"/root", "f", "content")
	})
}

// Sources and progress of the caller that panic publish nothing.
func TestPanicInSource(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		ctx := context.Background()
		for what, call := range map[string]func(sub *Root){
			"PutFrom":       func(sub *Root) { sub.PutFrom(ctx, "f", thrower{}, PutOptions{}) },
			"Batch.PutFrom": func(sub *Root) { sub.Batch(BatchOptions{}).PutFrom(ctx, "f", thrower{}, PutOptions{}) },
			"CopyIn": func(sub *Root) {
				sub.CopyIn(ctx, "f", Source{Root: sub, Name: "dir/file"}, CopyOptions{Progress: func(_, _ int64) { panic(errThrown) }})
			},
			"CopyTree": func(sub *Root) {
				sub.CopyTree(ctx, "copies", sub, "dir", TreeCopyOptions{File: CopyOptions{Progress: func(_, _ int64) { panic(errThrown) }}})
			},
		} {
			fds := openFDs(t) + 1
			sub, err := r.Grant(".", Grant{Policy: Workspace()})
			must(t, err)
			if !thrown(t, func() { call(sub) }) {
				t.Errorf("%s: no panic", what)
			}
			runtime.GC()
			sound(t, what, sub, base, fds)
		}
		holds(t, base+"/root", "f", "content")
	})
}

type thrower struct{}

func (thrower) Read([]byte) (int, error) { panic(errThrown) }

// An observer that panics takes the result of the call with it.
func TestPanicInObserve(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for verb := range handingOut(nil) {
			for _, name := range []string{"f", "dir", "absent"} {
				renew(t, base)
				fds := openFDs(t) + 1
				on := false
				sub, err := r.Grant(".", Grant{Policy: Compat(), Observe: func(Event) {
					if on {
						panic(errThrown)
					}
				}})
				must(t, err)
				on = true
				if !thrown(t, func() { handingOut(sub)[verb](name) }) {
					t.Errorf("%s %s: no panic", verb, name)
				}
				on = false
				sound(t, verb+" "+name, sub, base, fds)
			}
		}
	})
}

// handingOut are the verbs that make one call, those with a result of another
// kind than a name's among them.
func handingOut(r *Root) map[string]func(string) error {
	all := verbs(r)
	for verb := range compound {
		delete(all, verb)
	}
	all["Grant"] = func(n string) error { return errOf(r.Grant(n, Grant{Policy: Compat()})) }
	all["OpenParent"] = func(n string) error { _, _, err := r.OpenParent(n); return err }
	all["CreateUnnamed"] = func(n string) error { return errOf(r.CreateUnnamed(n)) }
	all["File"] = func(string) error { return errOf(r.File()) }
	all["Watch"] = func(n string) error { return errOf(r.Watch(n)) }
	return all
}
