package caproot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// window runs an attack before the n-th call that takes a name.
type window struct {
	system
	kernel beneathOpener
	mu     sync.Mutex // a verb with workers calls from several goroutines
	left   int
	attack func()
	frames int // deepest distance from a public verb
}

func (w *window) open1() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left == 0 && w.attack != nil {
		w.attack()
	}
	if w.attack == nil {
		w.frames = max(w.frames, framesBelowVerb(w.kernel == nil))
	}
}

func (w *window) openBeneath(d handle, p string, how openHow, perm fs.FileMode, rule beneathRule) (handle, error) {
	w.open1()
	return w.kernel.openBeneath(d, p, how, perm, rule)
}

func (w *window) openDir(d handle, n string) (handle, error) {
	w.open1()
	return w.system.openDir(d, n)
}

func (w *window) open(d handle, n string, how openHow, perm fs.FileMode) (handle, error) {
	w.open1()
	return w.system.open(d, n, how, perm)
}

func (w *window) stat(d handle, n string, full bool) (status, error) {
	w.open1()
	return w.system.stat(d, n, full)
}

func (w *window) readlink(d handle, n string) (string, error) {
	w.open1()
	return w.system.readlink(d, n)
}

func (w *window) mkdir(d handle, n string, perm fs.FileMode) error {
	w.open1()
	return w.system.mkdir(d, n, perm)
}

func (w *window) remove(d handle, n string, isDir bool) error {
	w.open1()
	return w.system.remove(d, n, isDir)
}

func (w *window) rename(a handle, n string, b handle, m string, how renameHow) error {
	w.open1()
	return w.system.rename(a, n, b, m, how)
}

func (w *window) link(a handle, n string, b handle, m string) error {
	w.open1()
	return w.system.link(a, n, b, m)
}

func (w *window) symlink(target string, d handle, n string) error {
	w.open1()
	return w.system.symlink(target, d, n)
}

func (w *window) unnamed(d handle, perm fs.FileMode) (handle, error) {
	w.open1()
	return w.system.unnamed(d, perm)
}

func (w *window) publish(f, d handle, n string) error {
	w.open1()
	return w.system.publish(f, d, n)
}

func (w *window) sync(h handle) error {
	w.open1()
	return w.system.sync(h)
}

// framesBelowVerb counts the frames from an exported method of Root or File to
// the primitive, both included. Those of a walk count only for a root that has
// nothing else: beside the kernel's resolver it explains a refusal.
func framesBelowVerb(walks bool) int {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for n := 1; ; n++ {
		f, more := frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '.')+1:]
		if strings.Contains(f.Function, "caproot.(*Root).") && name[0] >= 'A' && name[0] <= 'Z' {
			return n
		}
		if !more || !walks && strings.Contains(f.Function, "walker") {
			return 0
		}
	}
}

// attacks are what a peer with rights in the root can do to the tree of
// eachResolver while a verb works on "dir/file" or "dir/new".
func attacks(base string) map[string]func() {
	root := base + "/root"
	return map[string]func(){
		"exchange the parent with a link to outside": func() {
			unix.Renameat2(unix.AT_FDCWD, root+"/dir", unix.AT_FDCWD, root+"/out", unix.RENAME_EXCHANGE)
		},
		"move the parent away and link outside": func() {
			os.Rename(root+"/dir", root+"/away")
			os.Symlink(base+"/outside", root+"/dir")
		},
		"put a link to outside at the leaf": func() {
			os.Remove(root + "/dir/file")
			os.Symlink("../../outside/secret", root+"/dir/file")
			os.Symlink("../../outside/made", root+"/dir/new")
		},
		"put a fifo at the leaf": func() {
			os.Remove(root + "/dir/file")
			unix.Mkfifo(root+"/dir/file", 0o644)
			unix.Mkfifo(root+"/dir/new", 0o644)
		},
	}
}

// Every window: each attack before each call of each verb. The attack's twin is
// TestExchangeRaceTwin. cases 3, 13, 16, 37, 81, 105.
func TestEveryWindow(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		for attack := range attacks("") {
			t.Run(fmt.Sprintf("links=%d/%s", p.MutationLinks, attack), func(t *testing.T) {
				p := p
				p.Special = SpecialRefuse
				for verb := range attacked(nil) {
					t.Run(verb, func(t *testing.T) {
						for _, name := range []string{"dir/file", "dir/new"} {
							everyWindow(t, p, attack, verb, name)
						}
					})
				}
			})
		}
	}
}

// attacked are all the verbs that are attacked.
func attacked(r *Root) map[string]func(name string) error {
	all := verbs(r)
	maps.Copy(all, windowVerbs(r))
	return all
}

func everyWindow(t *testing.T, p Policy, attack, verb, name string) {
	for n := 1; n < 200; n++ {
		more := false
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			w := &window{system: r.sys, left: n, attack: attacks(base)[attack]}
			r.sys = w
			if r.beneath != nil {
				w.kernel, r.beneath = r.beneath, w
			}
			if err := attacked(r)[verb](name); errors.Is(err, errSawOutside) {
				t.Errorf("%s(%q), window %d: %v", verb, name, n, err)
			}
			if data, err := r.ReadFile("dir/file"); err == nil && string(data) == "secret" {
				t.Errorf("%s(%q), window %d: read outside", verb, name, n)
			}
			more = more || w.left <= 0 && n < 40
			r.sys, r.beneath = w.system, w.kernel
			if _, err := os.Lstat(base + "/outside/made"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s(%q), window %d: made a file outside", verb, name, n)
			}
			noStage(t, base)
		})
		if !more {
			return
		}
	}
}

// stepFrames are the verbs of several steps (a publication, a move with its looks
// before and after, a copy), with the deepest frame of a step. See ADR 4.
var stepFrames = map[string]int{
	"Put": 9, "PutParents": 9, "Batch": 7, "Append": 6, "CopyInFrom": 10, "CopyInTo": 11, "CopyTreeFrom": 8, "CopyTreeTo": 5, "CopyFS": 8,
	"MoveFrom": 6, "MoveTo": 6, "RenameFrom": 6, "RenameTo": 6, "LinkFrom": 5, "LinkTo": 5, "ExchangeFrom": 5, "ExchangeTo": 5,
	"Receipt": 5, "Check": 5, "WalkDir": 7,
}

// A public verb reaches the kernel in at most four frames where the kernel
// resolves. A walk has its loop over the components in between, five frames more
// whatever the depth: it does not recurse.
func TestFourFrames(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		more := 0
		w := &window{system: r.sys, kernel: r.beneath, left: -1}
		if r.sys = w; r.beneath != nil {
			r.beneath = w
		} else {
			more = 5
		}
		deep := strings.Repeat("d/", 20)
		must(t, os.MkdirAll(base+"/root/dir/"+deep, 0o755))
		must(t, os.Symlink("dir/"+deep, base+"/root/way"))
		all := verbs(r)
		for _, verb := range slices.Sorted(maps.Keys(all)) {
			w.frames = 0
			all[verb]("dir/" + strings.ToLower(verb))
			all[verb]("dir/file")
			all[verb]("dir/" + deep + strings.ToLower(verb))
			all[verb]("way/" + strings.ToLower(verb))
			limit := cmp.Or(stepFrames[verb], 4) + more
			// The body of an iterator is no method: its frames do not count.
			if w.frames > limit || w.frames < 2 && !strings.HasPrefix(verb, "Walk") {
				t.Errorf("%s: %d frames, limit %d", verb, w.frames, limit)
			}
		}
		r.sys, r.beneath = w.system, w.kernel
	})
}
