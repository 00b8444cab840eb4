package caproot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// chargedFor moves tree by a grant that fail has made ready, and sees that it is
// charged for what is at the target then.
func chargedFor(t *testing.T, r *Root, base, what string, g Grant, fail func(sub *Root)) {
	t.Helper()
	sources(t, base)
	_, charge := shape(t, base+"/root/tree")
	g.Policy, g.Budget = Compat(), &Budget{NoLimit, NoLimit}
	sub, err := r.Grant(".", g)
	must(t, err)
	fail(sub)
	fds := openFDs(t)
	thrown(t, func() { _, err = sub.Move("tree", "m/new", MoveOptions{CrossDevice: true, Durability: DurabilityDir}) })
	if now := openFDs(t); now != fds {
		t.Errorf("%s: descriptors: %d before, %d after", what, fds, now)
	}
	noStageBelow(t, base+"/root", what)
	if !exists(base + "/root/m/new") {
		charge = Budget{}
	}
	if spent := sub.Spent(); spent != charge {
		t.Errorf("%s: %v, spent %+v, there is %+v", what, err, spent, charge)
	}
	must(t, sub.Close())
}

// A copy is charged for each part of it as it is made: where a flush fails or
// Observe panics, what is taken away again is paid back whole.
func TestMoveAcrossPaysBack(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for k, more := 1, true; more; k++ {
			more = false
			chargedFor(t, r, base, fmt.Sprintf("flush %d fails", k), Grant{}, func(sub *Root) {
				n := 0
				hook(sub, func(event string) error {
					if !strings.HasPrefix(event, "sync") {
						return nil
					}
					if n++; n == k {
						more = true
						return unix.EIO
					}
					return nil
				})
			})
		}
		for k, more := 1, true; more; k++ {
			n, armed := 0, false
			more = false
			observe := func(Event) {
				if !armed {
					return
				}
				if n++; n == k {
					more = true
					panic(errThrown)
				}
			}
			chargedFor(t, r, base, fmt.Sprintf("Observe panics at %d", k), Grant{Observe: observe}, func(*Root) { armed = true })
		}
	})
}

// lostMake makes stages and answers that it failed.
type lostMake struct{ system }

func (s lostMake) mkdir(dir handle, name string, perm os.FileMode) error {
	err := s.system.mkdir(dir, name, perm)
	if err == nil && isStageName(name) {
		err = syscall.EIO
	}
	return err
}

func (s lostMake) symlink(target string, dir handle, name string) error {
	err := s.system.symlink(target, dir, name)
	if err == nil && isStageName(name) {
		err = syscall.EIO
	}
	return err
}

// A stage that is made though its reply is lost is taken away.
func TestMoveAcrossLosesItsStage(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"tree", "link"} {
			sources(t, base)
			before := seal(t, base+"/root/"+name)
			sub, err := r.OpenRoot(".")
			must(t, err)
			sub.sys = lostMake{sub.sys}
			_, err = sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
			want(t, name, err, syscall.EIO)
			if left := listed(t, base+"/root/m"); len(left) != 0 || seal(t, base+"/root/"+name) != before {
				t.Errorf("%s: left %v", name, left)
			}
			must(t, sub.Close())
		}
	})
}

// The window is from the making of a link to its owner and times: another process
// puts a further name of a link from outside in its place, which keeps its own.
// The naive twin, which looks at what the link says and no further, changes it.
func TestMoveLinkStageIsAnothersLink(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		victim := base + "/theirs"
		must(t, os.Symlink("gone", victim))
		swapped := 0
		swap := func() {
			found, _ := filepath.Glob(base + "/root/" + stagePrefix + "*")
			if len(found) == 1 {
				must(t, os.Remove(found[0]))
				must(t, os.Link(victim, found[0]))
				swapped++
			}
		}
		old := []unix.Timespec{{Sec: 1e9}, {Sec: 1e9}}
		link := func() {
			must(t, os.Symlink("gone", base+"/root/m/link"))
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, base+"/root/m/link", old, unix.AT_SYMLINK_NOFOLLOW))
		}
		link()
		before := sealLink(t, victim)
		for k, more := 1, true; more; k++ {
			more = false
			s := hook(r, nth(k, "", func() { more = true; swap() }))
			r.Move("m/link", "new", MoveOptions{CrossDevice: true})
			r.sys = s.system
			if now := sealLink(t, victim); now != before {
				t.Errorf("at call %d: the link outside was %s, is %s", k, before, now)
			}
			found, _ := filepath.Glob(base + "/root/" + stagePrefix + "*")
			for _, name := range append(found, base+"/root/new") {
				os.Remove(name)
			}
			if !exists(base + "/root/m/link") {
				link()
			}
		}
		if swapped == 0 {
			t.Error("no link was put in place of a stage")
		}

		naive := base + "/root/naive"
		must(t, os.Link(victim, naive))
		if text, _ := os.Readlink(naive); text == "gone" {
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, naive, old, unix.AT_SYMLINK_NOFOLLOW))
		}
		if sealLink(t, victim) == before {
			t.Error("the attack does not work")
		}
	})
}

// sealLink is what a link is and whose.
func sealLink(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Lstat(name)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(info.Mode(), st.Uid, st.Gid, info.ModTime())
}

// rename(2) does nothing where both names are of one object, and says that it did:
// a move to a name that another process gave to its stage has failed or has
// happened, and no stage is left.
func TestMoveLinkAcrossOntoItsStage(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		linked := 0
		for k, more := 1, true; more; k++ {
			sources(t, base)
			sub, err := r.OpenRoot(".")
			must(t, err)
			more = false
			hook(sub, nth(k, "", func() {
				more = true
				found, _ := filepath.Glob(base + "/root/m/" + stagePrefix + "*")
				if len(found) == 1 && os.Link(found[0], base+"/root/m/new") == nil {
					linked++
				}
			}))
			receipt, err := sub.Move("link", "m/new", MoveOptions{CrossDevice: true})
			what := fmt.Sprintf("at call %d: %v", k, err)
			noStageBelow(t, base+"/root", what)
			if err == nil && (exists(base+"/root/link") || receipt.Published == 0) {
				t.Errorf("%s: the link is still there", what)
			}
			if err != nil && !exists(base+"/root/link") && receipt.Published == 0 {
				t.Errorf("%s: the link is gone", what)
			}
			must(t, sub.Close())
		}
		if linked == 0 {
			t.Error("no stage got the target's name")
		}
	})
}
