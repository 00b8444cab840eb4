package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// halfCopies are the half copies in m.
func halfCopies(base string) []string {
	found, _ := filepath.Glob(base + "/root/m/" + stagePrefix + "*")
	return found
}

// Before each third call of the kernel, with either resolver others, something of the
// move is taken away. The source has its name, so no answer says that something is
// missing.
func TestMoveAcrossNeverLooksAbsent(t *testing.T) {
	offset := 0
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		offset++
		for what, act := range map[string]func(){
			"stage taken": func() {
				for _, stage := range halfCopies(base) {
					os.Rename(stage, base+"/root/m/taken")
				}
			},
			"stage removed": func() {
				for _, stage := range halfCopies(base) {
					discard(stage)
				}
			},
			"part of it removed": func() {
				for _, stage := range halfCopies(base) {
					discard(stage + "/sub")
				}
			},
			"second name removed": func() { os.Remove(base + "/root/tree/sub/b") },
		} {
			for _, name := range []string{"tree", "link"} {
				for n, more := offset, true; more; n += 3 {
					sources(t, base)
					more = false
					w := &window{system: r.sys, kernel: r.beneath, left: n, attack: func() { more = true; act() }}
					if r.sys = (beforeRemoval{w}); r.beneath != nil {
						r.beneath = w
					}
					fds := openFDs(t)
					_, err := r.Move(name, "m/new", MoveOptions{CrossDevice: true, Durability: DurabilityNone})
					r.sys, r.beneath = w.system, w.kernel
					if errors.Is(err, fs.ErrNotExist) && exists(base+"/root/"+name) {
						t.Errorf("%s, %s before call %d: %v", name, what, n, err)
					}
					if now := openFDs(t); now != fds {
						t.Errorf("%s, %s before call %d: descriptors: %d before, %d after", name, what, n, fds, now)
					}
				}
			}
		}
		sources(t, base)
	})
}

// The window is between the call that makes the stage and the one that holds it: an
// empty directory that the grant denies is left alone.
func TestMoveAcrossLeavesDeniedStage(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, mode := range []fs.FileMode{0o700, 0o755} {
			sources(t, base)
			denied := base + "/root/m/denied"
			must(t, os.Mkdir(denied, mode))
			must(t, os.Chmod(denied, mode))
			was, err := os.Stat(denied)
			must(t, err)
			g, err := r.Grant(".", Grant{Policy: Compat(), Deny: []string{"m/denied"}})
			must(t, err)
			var stage string
			hook(g, once("open STAGE", func() {
				stage = halfCopies(base)[0]
				must(t, unix.Renameat2(unix.AT_FDCWD, stage, unix.AT_FDCWD, denied, unix.RENAME_EXCHANGE))
			}))
			_, err = g.Move("tree", "m/new", MoveOptions{CrossDevice: true})
			want(t, fmt.Sprint(mode), err, ErrPolicy)
			now, err := os.Stat(stage)
			must(t, err)
			if !os.SameFile(was, now) || !now.ModTime().Equal(was.ModTime()) || exists(base+"/root/m/new") {
				t.Errorf("%v: changed", mode)
			}
			must(t, g.Close())
		}
		sources(t, base)
	})
}

// The window is from the call that makes the stage of a link to the one that gives its
// name: another link takes the name before the a-th call, the stage has it again b calls
// later, and c calls later the other one. What is published is what was moved.
func TestMoveLinkAcrossStageSwapped(t *testing.T) {
	eachDevice(t, "size=1m", func(t *testing.T, r *Root, base string) {
		for i := range 8 * 3 * 4 {
			waits := []int{1 + i%8, 1 + i/8%3, 1 + i/24, 0}
			names := []string{base + "/root/mine", base + "/root/m/new", base + "/root/m/evil"}
			for _, name := range names {
				os.Remove(name)
			}
			must(t, os.Symlink("mine", names[0]))
			must(t, os.Symlink("evil", names[2]))
			w := &window{system: r.sys, kernel: r.beneath}
			swaps := 0
			w.attack = func() {
				if found := halfCopies(base); len(found) == 1 {
					unix.Renameat2(unix.AT_FDCWD, found[0], unix.AT_FDCWD, names[2], unix.RENAME_EXCHANGE)
				}
				swaps++
				w.left = waits[swaps]
			}
			if r.sys = (afterSymlink{beforeRemoval{w}, func() { w.left = waits[0] }}); r.beneath != nil {
				r.beneath = w
			}
			_, err := r.Move("mine", "m/new", MoveOptions{CrossDevice: true, Durability: DurabilityNone})
			r.sys, r.beneath = w.system, w.kernel
			if text := heldAt(t, names[1]); err == nil && text != "mine" || err != nil && !exists(names[0]) {
				t.Errorf("%v: published %q: %v", waits, text, err)
			}
			for _, name := range append(names, halfCopies(base)...) {
				os.Remove(name)
			}
		}
	})
}

// afterSymlink acts when a link was made.
type afterSymlink struct {
	system
	act func()
}

func (s afterSymlink) symlink(text string, dir handle, name string) error {
	defer s.act()
	return s.system.symlink(text, dir, name)
}

// A directory whose mode refuses its new owner is flushed all the same. The directories
// of somebody whom the process does not run as are its own, too.
func TestMoveTreeAcrossFlushesClosedDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root acts for another user")
	}
	eachDevice(t, "size=1m", func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"tree", "tree/closed"} {
			must(t, os.Mkdir(base+"/root/"+name, 0o700))
		}
		must(t, os.Chmod(base+"/root/tree/closed", 0o077))
		for _, name := range []string{"", "/m", "/tree"} {
			must(t, os.Chmod(base+"/root"+name, 0o777))
		}
		var receipt identity.Receipt
		var err error
		as(nobody, func() {
			receipt, err = r.Move("tree", "m/new", MoveOptions{CrossDevice: true, Durability: DurabilityDir})
		})
		must(t, err)
		if receipt.Durability != DurabilityDir || slices.Contains(receipt.Lost, "dir-sync") {
			t.Errorf("%+v", receipt)
		}
		info, err := os.Stat(base + "/root/m/new/closed")
		must(t, err)
		if info.Mode().Perm() != 0o077 || info.Sys().(*syscall.Stat_t).Uid != nobody {
			t.Errorf("%v, %+v", info.Mode(), info.Sys())
		}
	})
}

const nobody = 65534

// as has the file system take the goroutine for another user's (setfsuid(2)).
func as(uid int, act func()) {
	runtime.LockOSThread()
	unix.SetfsuidRetUid(uid)
	defer func() {
		unix.SetfsuidRetUid(0)
		runtime.UnlockOSThread()
	}()
	act()
}
