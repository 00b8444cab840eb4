package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// reading are the verbs of verbs() that change nothing, so nobody is asked.
var reading = map[string]bool{"Open": true, "OpenView": true, "OpenRoot": true, "ReadFile": true, "Stat": true, "Lstat": true,
	"Exists": true, "Readlink": true, "ReadDir": true, "Receipt": true, "Check": true,
	"Walk": true, "Walk4": true, "WalkDir": true, "Glob": true, "Entries": true}

// A Before that refuses everything: no verb changes anything, and no answer
// looks like absence, though the callback's does. This fails for a verb that
// makes a change without asking.
func TestBeforeRefuses(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		var count atomic.Int32 // Walk4 and its like have workers
		g := Grant{Policy: p, Budget: &Budget{NoLimit, NoLimit}, Before: func(m Mutation) error {
			count.Add(1)
			return &fs.PathError{Op: "host", Path: m.Path, Err: unix.ENOENT}
		}}
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.WriteFile(base+"/root/dir/"+deadStage, nil, 0o600))
			must(t, os.Mkdir(base+"/root/empty", 0o700))
			sub, err := r.Grant(".", g)
			must(t, err)
			before := seal(t, base+"/root")
			for verb, call := range verbs(sub) {
				for _, name := range []string{"f", "dir/file", "dir/new", "new/er", "dir", "empty", "in/new", "lk", "dir/../f"} {
					count.Store(0)
					err := call(name)
					asked := count.Load()
					if after := seal(t, base+"/root"); after != before {
						t.Fatalf("%s(%q) changed:\n%s\nwas\n%s", verb, name, after, before)
					}
					if compound[verb] {
						continue
					}
					if asked > 0 {
						want(t, verb+" "+name, err, ErrPolicy)
					}
					if asked > 0 && errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s(%q) looks like absence: %v", verb, name, err)
					}
					if asked > 0 && reading[verb] || err == nil && !reading[verb] && !nothingToDo(verb, name) {
						t.Errorf("%s(%q): asked %d times, %v", verb, name, asked, err)
					}
				}
			}
			if spent := sub.Spent(); spent != (Budget{}) {
				t.Errorf("refused calls spent %+v", spent)
			}
			must(t, sub.Close())
		})
	}
}

// nothingToDo are successes that change nothing.
func nothingToDo(verb, name string) bool {
	switch verb {
	case "MkdirAll":
		return name == "dir" || name == "empty"
	case "RemoveAll", "RemoveTree", "RemoveTree4":
		return name == "dir/new" || name == "in/new" || name == "new/er"
	case "Sweep":
		return name == "empty"
	}
	return false
}

// swaps are what a Before does to the tree it was asked about.
func swaps(base string) map[string]func() {
	root := base + "/root"
	all := attacks(base)
	all["move the root away and link outside"] = func() {
		os.Rename(root, base+"/moved")
		os.Symlink(base+"/outside", root)
	}
	all["move the parent out of the root and put another there"] = func() {
		os.Rename(root+"/dir", base+"/taken")
		os.Mkdir(root+"/dir", 0o755)
	}
	all["put another file at the leaf"] = func() {
		for _, name := range []string{"/dir/file", "/dir/new", "/f"} {
			os.WriteFile(root+name+".tmp", []byte("other"), 0o600)
			os.Rename(root+name+".tmp", root+name)
		}
	}
	all["take the leaf away"] = func() {
		os.Remove(root + "/dir/file")
		os.Remove(root + "/f")
		os.Mkdir(root+"/dir/new", 0o700)
	}
	return all
}

// cases 16, 30: whatever a Before swaps, at whichever of its calls, the answer
// is a refusal, the outside stays, and nothing is left.
func TestBeforeSwaps(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		for swap := range swaps("") {
			for verb := range verbs(nil) {
				if reading[verb] || verb == "Sweep" {
					continue
				}
				for _, name := range []string{"dir/file", "dir/new"} {
					for n, more := 1, true; more && n < 10; n++ {
						more = swapAt(t, p, swap, verb, name, n)
					}
				}
			}
		}
	}
}

// swapAt swaps when Before is asked for the n-th time, and tells whether it was.
func swapAt(t *testing.T, p Policy, swap, verb, name string, n int) (asked bool) {
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		var count atomic.Int32
		sub, err := r.Grant(".", Grant{Policy: p, Budget: &Budget{NoLimit, NoLimit}, Before: func(Mutation) error {
			if count.Add(1) == int32(n) {
				swaps(base)[swap]()
			}
			return nil
		}})
		must(t, err)
		err = verbs(sub)[verb](name)
		if count.Load() >= int32(n) {
			asked = true
			what := fmt.Sprintf("%s(%q), %s at %d", verb, name, swap, n)
			// In a compound verb the swap may have hit what nobody was just asked
			// about, and is then for the ask about that to see.
			if !compound[verb] && (!errors.Is(err, ErrChanged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)) {
				t.Errorf("%s: %v", what, err)
			}
			for _, made := range []string{"/outside/made", "/outside/new", "/outside/moved", "/outside/linked", "/root/moved",
				"/root/linked", "/taken/new", "/taken/moved", "/taken/linked"} {
				// A CopyTree works on with the directory it has open, wherever that is
				// moved while another of its files is asked about.
				if _, err := os.Lstat(base + made); err == nil && !(compound[verb] && strings.HasPrefix(made, "/taken")) {
					t.Errorf("%s: made %s", what, made)
				}
			}
			if strings.HasPrefix(swap, "put another file") && !compound[verb] {
				if data, err := os.ReadFile(base + "/root/dir/new"); string(data) != "other" {
					t.Errorf("%s: changed what was put there: %q, %v", what, data, err)
				}
			}
		}
		noStage(t, base)
		must(t, sub.Close())
	})
	return asked
}

// A Before that revokes its own grant, and one that says yes.
func TestBeforeRevokes(t *testing.T) {
	var sub *Root
	granted(t, Workspace(), Grant{Policy: Workspace(), Before: func(Mutation) error { sub.Revoke(); return nil }},
		func(t *testing.T, g *Root, base string) {
			sub = g
			before := seal(t, base+"/root")
			for _, verb := range []string{"Put", "Mkdir", "WriteFile", "RemoveAll"} {
				want(t, verb, verbs(g)[verb]("dir/x"), ErrRevoked)
			}
			if seal(t, base+"/root") != before {
				t.Error("changed after revocation")
			}
		})
}

// What Before is told: canonical paths below each grant's own directory.
func TestBeforeIsTold(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		var log []string
		note := func(who string) func(Mutation) error {
			return func(m Mutation) error {
				line := fmt.Sprintf("%s %s %s %s", who, m.Verb, m.Step, m.Path)
				if m.To != "" {
					line += " " + m.To
				}
				if !m.Parent.Known() {
					t.Errorf("%s: no parent", line)
				}
				if m.Object.Known() {
					line += " there"
				}
				if m.Displaced.Known() {
					line += " displaces"
				}
				log = append(log, line)
				return nil
			}
		}
		must(t, r.MkdirAll("dir/a/b", 0o700))
		must(t, r.Symlink("a/b", "dir/way"))
		top, err := r.Grant("in", Grant{Policy: Workspace(), Before: note("top")})
		must(t, err)
		mid, err := top.OpenRoot("a")
		must(t, err)
		sub, err := mid.Grant("../a/b", Grant{Policy: Workspace()})
		want(t, "grant outside", err, ErrEscape)
		sub, err = mid.Grant("b", Grant{Policy: Workspace(), Before: note("sub")})
		must(t, err)
		for _, check := range []struct {
			do   func() error
			want string
		}{
			{func() error { return verbs(top)["Put"]("way/p") }, "top put stage a/b/p|top put publish a/b/p"},
			{func() error { return verbs(mid)["Mkdir"]("./b/../n") }, "top mkdir mkdir a/n"},
			{func() error { return verbs(sub)["Put"]("p") },
				"sub put stage p there|top put stage a/b/p there|sub put publish p there|top put publish a/b/p there"},
			{func() error { return verbs(sub)["PutParents"]("q/r") },
				"sub put mkdir q|top put mkdir a/b/q|sub put stage q/r|top put stage a/b/q/r|sub put publish q/r|top put publish a/b/q/r"},
			{func() error { return sub.Rename("p", "q/r") }, "sub rename rename p q/r there displaces|top rename rename a/b/p a/b/q/r there displaces"},
			{func() error { return verbs(sub)["WriteFile"]("w") }, "sub open open w|top open open a/b/w"},
			{func() error { return verbs(sub)["Append"]("w") }, "sub append open w there|top append open a/b/w there"},
			{func() error { return sub.Link("w", "w2") }, "sub link link w w2 there|top link link a/b/w a/b/w2 there"},
			{func() error { return sub.Remove("w2") }, "sub remove remove w2 there|top remove remove a/b/w2 there"},
			{func() error { return sub.Symlink("w", "s") }, "sub symlink symlink s|top symlink symlink a/b/s"},
			{func() error { return sub.Chmod("w", 0o600) }, "sub chmod attrib w there|top chmod attrib a/b/w there"},
			{func() error { return sub.MkdirAll("x/y", 0o700) },
				"sub mkdirall mkdir x|top mkdirall mkdir a/b/x|sub mkdirall mkdir x/y|top mkdirall mkdir a/b/x/y"},
			{func() error { return sub.RemoveAll("x") },
				"sub removeall remove x/y there|top removeall remove a/b/x/y there|sub removeall remove x there|top removeall remove a/b/x there"},
		} {
			log = nil
			must(t, check.do())
			if got := strings.Join(log, "|"); got != check.want {
				t.Errorf("told %q, want %q", got, check.want)
			}
		}
		for _, root := range []*Root{sub, mid, top} {
			must(t, root.Close())
		}
	})
}

// Every window of a call on a grant with all there is: case 30 and those of
// TestEveryWindow, whose twin this is too. Also an exchange with what is denied.
func TestGrantEveryWindow(t *testing.T) {
	names := []string{exchangeDenied}
	for attack := range attacks("") {
		names = append(names, attack)
	}
	for _, attack := range names {
		for verb := range verbs(nil) {
			for _, name := range []string{"dir/file", "dir/new"} {
				for n, more := 1, true; more && n < 200; n++ {
					more = grantWindow(t, attack, verb, name, n)
				}
			}
		}
	}
}

func grantWindow(t *testing.T, attack, verb, name string, n int) (more bool) {
	p := Compat()
	p.Special = SpecialRefuse
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		if r.beneath == nil && kernelResolves() {
			return // what denies always walks: the other half is the same
		}
		must(t, os.Mkdir(base+"/root/denied", 0o755))
		must(t, os.WriteFile(base+"/root/denied/file", []byte("denied"), 0o644))
		sub, err := r.Grant(".", Grant{Policy: p, Deny: []string{"denied"}, Before: func(Mutation) error { return nil },
			Budget: &Budget{NoLimit, NoLimit}})
		must(t, err)
		w := &window{system: sub.sys, left: n, attack: attacks(base)[attack]}
		if w.attack == nil {
			w.attack = func() {
				unix.Renameat2(unix.AT_FDCWD, base+"/root/dir", unix.AT_FDCWD, base+"/root/denied", unix.RENAME_EXCHANGE)
			}
		}
		sub.sys = w
		if sub.beneath != nil {
			w.kernel, sub.beneath = sub.beneath, w
		}
		verbs(sub)[verb](name)
		more = more || w.left <= 0
		if data, err := sub.ReadFile("dir/file"); err == nil && (string(data) == "secret" || string(data) == "denied") {
			t.Errorf("%s(%q), window %d of %s: read %q", verb, name, n, attack, data)
		}
		sub.sys, sub.beneath = w.system, w.kernel
		if _, err := os.Lstat(base + "/outside/made"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s(%q), window %d of %s: made a file outside", verb, name, n, attack)
		}
		held := base + "/root/denied"
		if attack == exchangeDenied && w.left <= 0 {
			held = base + "/root/dir"
		}
		if data, err := os.ReadFile(held + "/file"); string(data) != "denied" {
			t.Errorf("%s(%q), window %d of %s: what is denied has %q, %v", verb, name, n, attack, data, err)
		}
		noStage(t, base)
		must(t, sub.Close())
	})
	return more
}

const exchangeDenied = "exchange with what is denied"

// Before is called by several calls at a time; run with -race.
func TestBeforeConcurrent(t *testing.T) {
	var asked sync.Map
	granted(t, Workspace(), Grant{Policy: Workspace(), Before: func(m Mutation) error { asked.Store(m.Path, true); return nil }},
		func(t *testing.T, sub *Root, base string) {
			var wg sync.WaitGroup
			for n := range 16 {
				wg.Go(func() {
					_, err := sub.Put(fmt.Sprintf("dir/p%d", n), []byte("x"), PutOptions{})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	for n := range 16 {
		if _, ok := asked.Load(fmt.Sprintf("dir/p%d", n)); !ok {
			t.Errorf("not asked about p%d", n)
		}
	}
}
