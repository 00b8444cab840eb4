package caproot

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"testing"

	"github.com/caproot/caproot/pathsafe"
)

func TestPolicyOutOfRange(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Open(dir)
	must(t, err)
	defer file.Close()
	o, err := os.OpenRoot(dir)
	must(t, err)
	defer o.Close()
	parent, err := Open(dir, Compat())
	must(t, err)
	defer parent.Close()
	for what, spoil := range map[string]func(*Policy){
		"right":       func(p *Policy) { p.Rights |= 1 << 12 },
		"links":       func(p *Policy) { p.Links = LinksResolveInRoot + 1 },
		"mutation":    func(p *Policy) { p.MutationLinks = 255 },
		"targets":     func(p *Policy) { p.LinkTargets = TargetsAny + 1 },
		"hardlinks":   func(p *Policy) { p.Hardlinks = HardlinksAllow + 1 },
		"mounts":      func(p *Policy) { p.Mounts = MountsCross + 1 },
		"special":     func(p *Policy) { p.Special = SpecialAllow + 1 },
		"modes":       func(p *Policy) { p.Modes |= fs.ModeDevice },
		"names":       func(p *Policy) { p.Names = pathsafe.Darwin + 1 },
		"read limit":  func(p *Policy) { p.MaxReadBytes = -1 },
		"write limit": func(p *Policy) { p.MaxWriteBytes = math.MinInt64 },
		"durability":  func(p *Policy) { p.Durability = DurabilityVolatile + 1 },
		"bind":        func(p *Policy) { p.Bind = BindHandle + 1 },
		"containment": func(p *Policy) { p.Containment = Walked + 1 },
	} {
		p := Compat()
		spoil(&p)
		for verb, open := range map[string]func() (*Root, error){
			"Open":       func() (*Root, error) { return Open(dir, p) },
			"FromFile":   func() (*Root, error) { return FromFile(file, p) },
			"FromOSRoot": func() (*Root, error) { return FromOSRoot(o, p) },
			"Grant":      func() (*Root, error) { return parent.Grant(".", Grant{Policy: p}) },
		} {
			r, err := open()
			if err == nil {
				r.Close()
			}
			var path *fs.PathError
			if !errors.Is(err, ErrFormat) || !errors.Is(err, fs.ErrInvalid) || !errors.As(err, &path) {
				t.Errorf("%s with another %s: %v", verb, what, err)
			}
		}
	}
	for _, p := range []Policy{{}, ReadOnly(), Workspace(), Extract(), Compat()} {
		must(t, p.valid())
	}
}

// No sum of an offset and a length passes a limit by overflow.
func TestWriteAtLimits(t *testing.T) {
	for limit, offsets := range map[int64]map[int64]error{
		0:             {0: ErrTooLarge, math.MaxInt64: ErrTooLarge, -1: fs.ErrInvalid},
		16:            {0: nil, 12: nil, 13: ErrTooLarge, math.MaxInt64 - 3: ErrTooLarge},
		NoLimit - 1:   {math.MaxInt64 - 4: ErrTooLarge, math.MaxInt64: ErrTooLarge},
		math.MaxInt64: {math.MaxInt64 - 3: ErrTooLarge, math.MaxInt64: ErrTooLarge, math.MinInt64: fs.ErrInvalid},
	} {
		p := Workspace()
		p.MaxWriteBytes = limit
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			for offset, answer := range offsets {
				f, err := r.OpenView("f", os.O_WRONLY, 0)
				must(t, err)
				n, err := f.WriteAt([]byte("four"), offset)
				if !errors.Is(err, answer) || answer != nil && n != 0 {
					t.Errorf("limit %d, offset %d: %d, %v; want %v", limit, offset, n, err, answer)
				}
				must(t, f.Close())
			}
		})
	}
}
