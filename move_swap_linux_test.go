package caproot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// swap lets two names change their objects before the n-th call of the kernel, and
// back before the k-th after that, if k is not 0; or the first one lose and regain its own.
type swap struct {
	n, k  int
	names [2]string
	away  bool
}

func (s swap) now() {
	if s.away && os.Rename(s.names[0], s.names[0]+".away") != nil {
		os.Rename(s.names[0]+".away", s.names[0])
	}
	if s.away {
		return
	}
	unix.Renameat2(unix.AT_FDCWD, s.names[0], unix.AT_FDCWD, s.names[1], unix.RENAME_EXCHANGE)
}

// in puts the swap between r and the kernel. It tells how many were made.
func (s swap) in(r *Root) (made *int) {
	made = new(int)
	w := &window{system: r.sys, kernel: r.beneath, left: s.n}
	w.attack = func() {
		s.now()
		if *made++; *made == 1 {
			w.left = s.k
		}
	}
	if r.sys = (beforeRemoval{w}); r.beneath != nil {
		r.beneath = w
	}
	return made
}

// beforeRemoval has no window before a removal: POSIX has no unlink by handle.
type beforeRemoval struct{ *window }

func (s beforeRemoval) remove(d handle, n string, isDir bool) error {
	return s.window.system.remove(d, n, isDir)
}

// swapCase is an object that may be moved from dir/sub/mine, and one that may not,
// which takes its name meanwhile.
type swapCase struct {
	mine, other func(path string) error
	grant       Grant
	match       bool
}

func swapCases() map[string]swapCase {
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	link := func(text string) func(string) error {
		return func(path string) error { return os.Symlink(text, path) }
	}
	dir := func(text string) func(string) error {
		return func(path string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.WriteFile(path+"/"+text, nil, 0o600)
		}
	}
	withPolicy := func(change func(p *Policy)) (g Grant) {
		g.Policy = Compat()
		change(&g.Policy)
		return g
	}
	free, denied := Grant{Policy: Compat()}, Grant{Policy: Compat(), Deny: []string{"dir/sub/other"}}
	return map[string]swapCase{
		"hard link": {file("mine"), func(path string) error {
			os.Remove(path + "2")
			if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
				return err
			}
			return os.Link(path, path+"2")
		}, withPolicy(func(p *Policy) { p.Hardlinks = HardlinksRefuse }), false},
		"link that leads out":  {link("mine"), link("../../other"), withPolicy(func(p *Policy) { p.LinkTargets = TargetsInside }), false},
		"denied file":          {file("mine"), file("other"), denied, false},
		"denied directory":     {dir("mine"), dir("other"), denied, false},
		"another file":         {file("mine"), file("other"), free, true},
		"another directory":    {dir("mine"), dir("other"), free, true},
		"a link for a file":    {file("mine"), link("other"), free, true},
		"a directory for that": {file("mine"), dir("other"), free, true},
	}
}

// heldAt is what is at path, whatever it is.
func heldAt(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
		return fmt.Sprint(listed(t, path))
	case info.Mode()&os.ModeSymlink != 0:
		text, err := os.Readlink(path)
		must(t, err)
		return filepath.Base(text)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// The window is from the first look at the object to the removal of its name: before
// each call of the kernel in it another object takes the name, for good or for a few
// calls. Nothing is moved but what was decided on, and nothing else is removed.
func TestMoveAcrossSourceSwapped(t *testing.T) {
	eachDevice(t, "size=1m", func(t *testing.T, r *Root, base string) {
		sub := base + "/root/dir/sub"
		s := swap{names: [2]string{sub + "/mine", sub + "/other"}}
		must(t, os.Mkdir(sub, 0o700))
		for what, c := range swapCases() {
			for _, s.k = range []int{0, 1} {
				for made := new(int); *made > 0 || s.n == 0; {
					s.n++
					for _, name := range append(s.names[:], base+"/root/m/new") {
						discard(name)
					}
					must(t, c.mine(s.names[0]))
					must(t, c.other(s.names[1]))
					mine, other := heldAt(t, s.names[0]), heldAt(t, s.names[1])
					g, err := r.Grant(".", c.grant)
					must(t, err)
					o := MoveOptions{CrossDevice: true, Durability: DurabilityNone}
					if c.match {
						receipt, err := g.Receipt("dir/sub/mine")
						must(t, err)
						o.IfMatch = &receipt
					}
					made = s.in(g)
					_, err = g.Move("dir/sub/mine", "m/new", o)
					moved := heldAt(t, base+"/root/m/new")
					if moved != "" && moved != mine || err == nil && moved == "" {
						t.Errorf("%s, %+v: moved %q: %v", what, s, moved, err)
					}
					if a, b := heldAt(t, s.names[0]), heldAt(t, s.names[1]); a != other && b != other || moved == "" && a != mine && b != mine {
						t.Errorf("%s, %+v: left %q, %q: %v", what, s, a, b, err)
					}
					noStageBelow(t, base+"/root", what)
					must(t, g.Close())
				}
				s.n = 0
			}
		}
		must(t, os.RemoveAll(sub))
		must(t, os.RemoveAll(base+"/root/m/new"))
	})
}
