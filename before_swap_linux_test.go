package caproot

import (
	"fmt"
	"os"
	"testing"

	"github.com/caproot/caproot/identity"
)

// The window is from the look at the object to its change: before each call of the
// kernel in it another object takes the name, or nothing has it, for a few calls, those
// in which the host is asked among them. The host is asked about the object that is changed.
func TestBeforeIsAskedAboutTheObject(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		var mode os.FileMode = 0o600
		for what, c := range map[string]struct {
			step    Step
			call    func(g *Root, want identity.Receipt) error
			changed func(path string) bool
		}{
			"Move":     {StepRename, func(g *Root, _ identity.Receipt) error { _, err := g.Move("a", "new", MoveOptions{}); return err }, nil},
			"Exchange": {StepRename, func(g *Root, _ identity.Receipt) error { _, err := g.Exchange("a", "new", MoveOptions{}); return err }, nil},
			"Chmod": {StepAttrib, func(g *Root, _ identity.Receipt) error { return g.Chmod("a", mode) }, func(path string) bool {
				info, err := os.Lstat(path)
				return err == nil && info.Mode() == mode
			}},
			"OpenFile": {StepOpen, func(g *Root, _ identity.Receipt) error {
				f, err := g.OpenView("a", os.O_WRONLY|os.O_TRUNC, 0)
				if err == nil {
					f.Close()
				}
				return err
			}, func(path string) bool {
				info, err := os.Lstat(path)
				return err == nil && info.Size() == 0
			}},
			"RemoveIf": {StepRemove, func(g *Root, want identity.Receipt) error { return g.RemoveIf("a", want) }, func(path string) bool { return !exists(path) }},
		} {
			for i := range 12 {
				k, away := []int{1, 2, 3, 5, 8, 13}[i/2], i%2 == 1
				for n, made := 1, 1; made > 0; n++ {
					s := swap{n: n, k: k, names: [2]string{base + "/root/a", base + "/root/b"}, away: away}
					ids := map[string]identity.ID{}
					for _, name := range []string{"a", "b", "new"} {
						path := base + "/root/" + name
						os.Remove(path)
						if name != "new" || what == "Exchange" {
							must(t, os.WriteFile(path, []byte(name), 0o644))
							receipt, err := r.Receipt(name)
							must(t, err)
							ids[name] = receipt.ID
						}
					}
					receipt, err := r.Receipt("a")
					must(t, err)
					var asked identity.ID
					g, err := r.Grant(".", Grant{Policy: Compat(), Before: func(m Mutation) error {
						if m.Step == c.step {
							asked = m.Object
						}
						return nil
					}})
					must(t, err)
					times := s.in(g)
					err = c.call(g, receipt)
					if made = *times; made == 1 {
						s.now() // the call ended first
					}
					for _, name := range []string{"a", "b"} {
						changed := false
						if c.changed != nil {
							changed = c.changed(base + "/root/" + name)
						} else {
							data, _ := os.ReadFile(base + "/root/new")
							changed = string(data) == name
						}
						if v, _ := identity.Compare(asked, ids[name]); changed && v != identity.Same && err == nil {
							t.Errorf("%s, %s: changed %s, which nobody was asked about", what, fmt.Sprint(n, "+", k, away), name)
						}
					}
					must(t, g.Close())
				}
			}
		}
		for _, name := range []string{"a", "b", "new"} {
			os.Remove(base + "/root/" + name)
		}
	})
}
