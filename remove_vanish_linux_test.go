package caproot

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// What vanishes as a whole before whichever call of its removal was missing, and a
// missing name is a success of RemoveAll and under Force.
func TestRemoveOfWhatVanishes(t *testing.T) {
	for what, c := range map[string]struct {
		force, match bool
		remove       func(r *Root, o TreeLimits) error
	}{
		"RemoveAll":       {force: true, remove: func(r *Root, _ TreeLimits) error { return r.RemoveAll("d") }},
		"Force":           {force: true},
		"Force, IfMatch":  {force: true, match: true},
		"RemoveTree":      {},
		"IfMatch":         {match: true},
		"RemoveTree of 4": {},
	} {
		t.Run(what, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				for _, isDir := range []bool{true, false} {
					for n, more := 1, true; more; n++ {
						if isDir {
							must(t, os.MkdirAll(base+"/root/d/sub", 0o700))
						} else {
							must(t, os.WriteFile(base+"/root/d", nil, 0o600))
						}
						o := TreeLimits{Force: c.force}
						if what == "RemoveTree of 4" {
							o.Workers = 4
						}
						if c.match {
							receipt, err := r.Receipt("d")
							must(t, err)
							o.IfMatch = &receipt
						}
						more = false
						w := &window{system: r.sys, kernel: r.beneath, left: n, attack: func() { more = true; os.RemoveAll(base + "/root/d") }}
						if r.sys = w; r.beneath != nil {
							r.beneath = w
						}
						var err error
						if c.remove != nil {
							err = c.remove(r, o)
						} else {
							_, err = r.RemoveTree(t.Context(), "d", o)
						}
						r.sys, r.beneath = w.system, w.kernel
						told := o.Workers > 1 && errors.Is(err, ErrChanged)
						if err != nil && (c.force || !errors.Is(err, fs.ErrNotExist)) && !told {
							t.Errorf("directory %v, vanished before call %d: %v", isDir, n, err)
						}
						gone(t, base+"/root/d")
					}
				}
			})
		})
	}
}
