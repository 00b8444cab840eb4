package caproot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// across are what is moved to another file system in these tests.
var across = []string{"tree", "link", "file"}

// sources makes them anew, and m empty.
func sources(t *testing.T, base string) {
	t.Helper()
	for _, name := range append(listed(t, base+"/root/m"), across...) {
		for _, dir := range []string{"/root/m/", "/root/"} {
			discard(base + dir + name)
		}
	}
	must(t, os.MkdirAll(base+"/root/tree/sub/empty", 0o755))
	must(t, os.WriteFile(base+"/root/tree/a", []byte("twelve bytes"), 0o640))
	must(t, os.Link(base+"/root/tree/a", base+"/root/tree/sub/b"))
	must(t, os.WriteFile(base+"/root/tree/sub/c", []byte("c"), 0o600))
	must(t, os.Symlink("../../outside", base+"/root/tree/sub/link"))
	must(t, os.Chmod(base+"/root/tree/sub", 0o500))
	must(t, os.Chmod(base+"/root/tree", 0o500))
	must(t, os.Symlink("gone", base+"/root/link"))
	must(t, os.WriteFile(base+"/root/file", []byte("file"), 0o600))
}

// shape is what a move keeps of a tree, and what a budget counts of it.
func shape(t *testing.T, top string) (text string, there Budget) {
	t.Helper()
	seen := map[uint64]bool{}
	must(t, filepath.Walk(top, func(path string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		there.Files++
		text += fmt.Sprintf("%q %v ", strings.TrimPrefix(path, top), info.Mode())
		switch ino := info.Sys().(*syscall.Stat_t).Ino; {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			text += target
		case info.Mode().IsRegular():
			data, _ := os.ReadFile(path)
			text += string(data)
			if !seen[ino] {
				there.Bytes += info.Size()
			}
			seen[ino] = true
		}
		return nil
	}))
	return text, there
}

func noStageBelow(t *testing.T, dir, what string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), stagePrefix) {
			t.Errorf("%s: left %s", what, path)
		}
		return err
	}))
}

// stopped moves name with a grant that stop ends somewhere, and looks at what is
// there then. It tells whether stop came to do it.
func stopped(t *testing.T, r *Root, base, name, what string, stop func(sub *Root, cancel func()) (before func(Mutation) error, done func() bool)) bool {
	t.Helper()
	sources(t, base)
	source := seal(t, base+"/root/"+name)
	was, charge := shape(t, base+"/root/"+name)
	fds := openFDs(t) + 1
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var before func(Mutation) error
	removals := 0
	sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}, Context: ctx,
		Before: func(m Mutation) error { return before(m) },
		Observe: func(e Event) {
			if strings.HasPrefix(e.Verb, "remove") {
				removals++
			}
		}})
	must(t, err)
	before, done := stop(sub, cancel)
	thrown(t, func() { _, err = sub.Move(name, "m/new", MoveOptions{CrossDevice: true}) })
	what = fmt.Sprintf("%s, %s", name, what)
	noStageBelow(t, base+"/root", what)
	if _, terr := os.Lstat(base + "/root/m/new"); terr != nil {
		if seal(t, base+"/root/"+name) != source {
			t.Errorf("%s: the source changed", what)
		}
		if charge = (Budget{}); len(listed(t, base+"/root/m")) != 0 {
			t.Errorf("%s: left %v", what, listed(t, base+"/root/m"))
		}
	} else if now, _ := shape(t, base+"/root/m/new"); now != was {
		t.Errorf("%s: moved\n%s, was\n%s", what, now, was)
	}
	if spent := sub.Spent(); spent != charge {
		t.Errorf("%s: spent %+v, there is %+v", what, spent, charge)
	}
	if removals > 0 {
		t.Errorf("%s: told %d removals", what, removals)
	}
	if now := openFDs(t); now != fds {
		t.Errorf("%s: descriptors: %d before, %d after", what, fds, now)
	}
	must(t, sub.Close())
	return done()
}

var errNo = errors.New("no")

// Whatever ends a move at whichever question: everything is where it was, or has
// moved as a whole, and the half copy is taken away without a question.
func TestMoveAcrossStoppedByBefore(t *testing.T) {
	ways := map[string]func(sub *Root, cancel func()) error{
		"refused":  func(*Root, func()) error { return errNo },
		"revoked":  func(sub *Root, _ func()) error { sub.Revoke(); return nil },
		"canceled": func(_ *Root, cancel func()) error { cancel(); return nil },
		"panicked": func(*Root, func()) error { panic(errThrown) },
	}
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for way, end := range ways {
			for _, name := range across {
				for k, more := 1, true; more; k++ {
					what := fmt.Sprintf("%s at %d", way, k)
					more = stopped(t, r, base, name, what, func(sub *Root, cancel func()) (func(Mutation) error, func() bool) {
						n, ended := 0, false
						return func(m Mutation) error {
							if n++; ended && m.Step == StepRemove && !exists(base+"/root/m/new") {
								t.Errorf("%s, %s: asked about %+v", name, what, m)
							}
							if n != k {
								return nil
							}
							ended = true
							return end(sub, cancel)
						}, func() bool { return ended }
					})
				}
			}
		}
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// The same at whichever call of the kernel.
func TestMoveAcrossStoppedAnywhere(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for way, end := range map[string]func(sub *Root, cancel func()){
			"revoked":  func(sub *Root, _ func()) { sub.Revoke() },
			"canceled": func(_ *Root, cancel func()) { cancel() },
		} {
			for _, name := range across {
				for k, more := 1, true; more; k += 3 {
					more = stopped(t, r, base, name, fmt.Sprintf("%s at call %d", way, k), func(sub *Root, cancel func()) (func(Mutation) error, func() bool) {
						ended := false
						hook(sub, nth(k, "", func() { ended = true; end(sub, cancel) }))
						return func(Mutation) error { return nil }, func() bool { return ended }
					})
				}
			}
		}
	})
}

// A root that is closed meanwhile takes its half copy away all the same.
func TestMoveAcrossClosedMeanwhile(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, name := range across {
			for k, more := 1, true; more; k += 5 {
				sources(t, base)
				was, _ := shape(t, base+"/root/"+name)
				sub, err := r.OpenRoot(".")
				must(t, err)
				more = false
				closed := make(chan error, 1)
				hook(sub, nth(k, "", func() {
					more = true
					go func() { closed <- sub.Close() }()
					for sub.life.state.Load() < closing {
					}
				}))
				sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
				noStageBelow(t, base+"/root", fmt.Sprintf("%s, closed at %d", name, k))
				at := base + "/root/" + name
				if exists(base + "/root/m/new") {
					at = base + "/root/m/new"
				}
				if now, _ := shape(t, at); now != was {
					t.Errorf("%s, closed at %d: %s", name, k, now)
				}
				if !more {
					go func() { closed <- sub.Close() }()
				}
				must(t, <-closed)
			}
		}
	})
}

// fenceFrom refuses from its n-th question on.
type fenceFrom struct{ left int }

func (f *fenceFrom) Enter() (func(), error) {
	if f.left--; f.left < 0 {
		return nil, errNo
	}
	return func() {}, nil
}

// What a fence refuses leaves no half copy, as no stage of a publication.
func TestMoveAcrossFenced(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, name := range across {
			for k, more := 0, true; more; k++ {
				sources(t, base)
				fence := &fenceFrom{k}
				fenced, err := r.Fenced(fence)
				must(t, err)
				fenced.Move(name, "m/new", MoveOptions{CrossDevice: true})
				noStageBelow(t, base+"/root", fmt.Sprintf("%s, fenced at %d", name, k))
				must(t, fenced.Close())
				more = fence.left < 0
			}
		}
	})
}

// A denied file in the tree, a name that comes, a rename whose reply is lost.
func TestMoveAcrossFailsAtTheEnd(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		unlimited := Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}}
		for _, name := range []string{"tree", "link"} {
			sources(t, base)
			sub, err := r.Grant(".", unlimited)
			must(t, err)
			s := hook(sub, once("rename noreplace STAGE", func() { os.Mkdir(base+"/root/m/new", 0o700) }))
			_, err = sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
			want(t, name, err, fs.ErrExist)
			noStageBelow(t, base+"/root", name)
			if spent := sub.Spent(); spent != (Budget{}) {
				t.Errorf("%s: spent %+v", name, spent)
			}
			must(t, os.Remove(base+"/root/m/new"))

			was, charge := shape(t, base+"/root/"+name)
			sub.sys = lostReply{s.system}
			receipt, err := sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
			want(t, name, err, syscall.EIO)
			if now, _ := shape(t, base+"/root/m/new"); now != was || receipt.Published == 0 || !exists(base+"/root/"+name) {
				t.Errorf("%s: %s, %+v", name, now, receipt)
			}
			if spent := sub.Spent(); spent != charge {
				t.Errorf("%s: spent %+v, there is %+v", name, spent, charge)
			}
			must(t, sub.Close())
		}
		sources(t, base)
		must(t, os.WriteFile(base+"/root/denied", nil, 0o600))
		must(t, os.Link(base+"/root/denied", base+"/root/tree/sub/z"))
		unlimited.Deny = []string{"denied"}
		sub, err := r.Grant(".", unlimited)
		must(t, err)
		_, err = sub.Move("tree", "m/new", MoveOptions{CrossDevice: true})
		want(t, "denied", err, ErrPolicy)
		noStageBelow(t, base+"/root", "denied")
		if spent := sub.Spent(); spent != (Budget{}) || len(listed(t, base+"/root/m")) != 0 {
			t.Errorf("denied: spent %+v", spent)
		}
		must(t, sub.Close())
	})
}

// lostReply renames stages and answers that it failed.
type lostReply struct{ system }

func (s lostReply) rename(a handle, n string, b handle, m string, how renameHow) error {
	err := s.system.rename(a, n, b, m, how)
	if err == nil && isStageName(n) {
		err = syscall.EIO
	}
	return err
}

// The directories of a half copy have their own modes in the end, which keep
// their owner from emptying them.
func TestMoveAcrossRefusedClosedDirectories(t *testing.T) {
	if !asNobody(t) {
		return
	}
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/m", 0o755))
		sources(t, base)
		sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}})
		must(t, err)
		s := hook(sub, answers(map[string]error{"rename noreplace tree": unix.EXDEV, "rename noreplace STAGE": unix.EIO}))
		_, err = sub.Move("tree", "m/new", MoveOptions{CrossDevice: true})
		want(t, "Move", err, unix.EIO)
		noStageBelow(t, base+"/root", "closed directories")
		if spent := sub.Spent(); spent != (Budget{}) || s.count("rename noreplace STAGE") != 1 {
			t.Errorf("spent %+v", spent)
		}
		discard(base + "/root/tree")
		must(t, sub.Close())
	})
}

// A link moved to another file system is a name that is made: it is asked for and
// charged before there is anything.
func TestMoveLinkAcrossIsAskedAndCharged(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		sources(t, base)
		var asked []string
		sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{Files: 1}, Before: func(m Mutation) error {
			asked = append(asked, fmt.Sprintf("%s %s %s", m.Step, m.Path, m.To))
			return nil
		}})
		must(t, err)
		_, err = sub.Move("link", "m/new", MoveOptions{CrossDevice: true})
		must(t, err)
		if got := strings.Join(asked, "|"); got != "rename link m/new|symlink m/new |publish m/new |remove link " || sub.Spent() != (Budget{Files: 1}) {
			t.Errorf("asked %s, spent %+v", got, sub.Spent())
		}
		must(t, os.Symlink("other", base+"/root/link"))
		before := seal(t, base+"/root")
		for _, replace := range []bool{false, true} {
			to := map[bool]string{false: "m/other", true: "m/new"}[replace]
			_, err = sub.Move("link", to, MoveOptions{CrossDevice: true, Replace: replace})
			want(t, to, err, ErrTooLarge)
		}
		if seal(t, base+"/root") != before || sub.Spent() != (Budget{Files: 1}) {
			t.Errorf("changed, or spent %+v", sub.Spent())
		}
		must(t, sub.Close())
	})
}
