package attack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/scratch"
	"github.com/caproot/caproot/state"
)

// leak is what a call gave that it had to refuse.
type leak string

// copyingVerbs copy between the tree under attack and others that nobody
// attacks, calm and sink.
func copyingVerbs(r, calm, sink *caproot.Root) []verb {
	ctx := context.Background()
	file := caproot.CopyOptions{PutOptions: quick}
	tree := caproot.TreeCopyOptions{File: file, Symlinks: caproot.LinksKeep, Hardlinks: caproot.LinksKeep, MaxEntries: maxEntries}
	return []verb{
		changing("CopyIn", func(n, o string) error {
			_, err := r.CopyIn(ctx, n, caproot.Source{Root: r, Name: o}, file)
			return err
		}),
		changing("CopyTree", func(n, _ string) error { _, err := r.CopyTree(ctx, n, calm, ".", tree); return err }),
		{"CopyTree out", func(n, _ string) (any, error) {
			name, err := sink.MkdirTemp(".", "*")
			if err != nil {
				return nil, err
			}
			defer sink.RemoveAll(name)
			_, err = sink.CopyTree(ctx, name, r, n, tree)
			var found []any
			for e, werr := range sink.Walk(ctx, name, caproot.WalkOptions{}) {
				if werr != nil {
					return found, werr
				}
				found = append(found, e.Name())
				if f, operr := e.Open(); operr == nil {
					text, _ := drain(f, nil)
					found = append(found, text)
				}
			}
			return found, err
		}},
	}
}

// grantVerbs use what a grant has, and what it withholds.
func grantVerbs(r *caproot.Root) []verb {
	asked := errors.New("refused by the host")
	return []verb{
		{"Grant", func(n, o string) (any, error) {
			g, err := r.Grant(n, caproot.Grant{Policy: r.Policy(), Deny: []string{"f", "b"}})
			if err != nil {
				return nil, err
			}
			defer g.Close()
			for _, denied := range []string{"f", "b/f", "../" + n + "/f", "./b/../f"} {
				if got, err := g.ReadFile(denied); err == nil {
					return leak(fmt.Sprintf("denied name %q of a grant was read: %q", denied, got)), nil
				}
			}
			return g.ReadFile(o)
		}},
		{"Grant with Before", func(n, o string) (any, error) {
			g, err := r.Grant(n, caproot.Grant{Policy: r.Policy(), Before: func(caproot.Mutation) error { return asked }})
			if err != nil {
				return nil, err
			}
			defer g.Close()
			if _, err := g.Put(o, content, quick); err == nil {
				return leak("a change was made that its callback refused"), nil
			}
			return g.Plugin().ReadDir(".")
		}},
		{"Revoke", func(n, o string) (any, error) {
			g, err := r.Grant(n, caproot.Grant{Policy: r.Policy()})
			if err != nil {
				return nil, err
			}
			defer g.Close()
			g.Revoke()
			got, err := g.ReadFile(o)
			if err == nil {
				return leak(fmt.Sprintf("a revoked grant read %q", got)), nil
			}
			return nil, err
		}},
	}
}

// lockVerbs make records and guards beside the name, and take them away.
func lockVerbs(r *caproot.Root) []verb {
	ctx := context.Background()
	m := lock.NewManager("attack")
	return []verb{
		changing("lock.TryAcquire", func(n, _ string) error {
			l, err := m.TryAcquire(ctx, r, n, lock.Options{})
			if err != nil {
				return err
			}
			if err = l.Release(); err != nil {
				m.Reset()
			}
			return err
		}),
		changing("lock.TryAdvisory", func(n, _ string) error {
			l, err := lock.TryAdvisory(ctx, r, n, lock.AdvisoryOptions{})
			if err != nil {
				return err
			}
			return l.Release()
		}),
		{"lock.Inspect", func(n, _ string) (any, error) {
			s, err := lock.Inspect(ctx, r, n, lock.Options{})
			return fmt.Sprintf("%+v", s), err
		}},
		changing("lock.Sweep", func(n, _ string) error { _, err := lock.Sweep(r, n); return err }),
		changing("lock.AcquireLease", func(n, _ string) error { return leased(r, n, func(*lock.Lease) error { return nil }) }),
		changing("Fenced", func(n, o string) error {
			return leased(r, n, func(l *lock.Lease) error {
				fenced, err := r.Fenced(l)
				if err != nil {
					return err
				}
				defer fenced.Close()
				_, err = fenced.Put(o, content, quick)
				return err
			})
		}),
	}
}

// leased uses a lease of the name.
func leased(r *caproot.Root, name string, use func(*lock.Lease) error) error {
	l, err := lock.AcquireLease(context.Background(), r, name, lock.LeaseOptions{TTL: lock.MinTTL})
	if err != nil {
		return err
	}
	return errors.Join(use(l), giveUp(l))
}

// builtVerbs are of packages that use all of the above.
func builtVerbs(r *caproot.Root) []verb {
	ours := lock.NewManager("")
	return []verb{
		changing("state.UpdateBytes", func(n, _ string) error {
			err := state.UpdateBytes(context.Background(), r, n, func(context.Context, []byte) ([]byte, error) { return content, nil },
				state.Options{Timeout: time.Millisecond, Durability: caproot.DurabilityNone})
			if err != nil {
				ours.Reset() // a lock whose record is not to be reached is still held
			}
			return err
		}),
		changing("scratch.New", func(n, _ string) error {
			d, err := scratch.New(r, n, scratch.Options{Prefix: "s", RetainOnExit: true})
			if err != nil {
				return err
			}
			_, err = d.Root().Put("f", content, quick)
			for range maxTries {
				// Others put files where it removes.
				if left := d.Remove(); left == nil || errors.Is(left, caproot.ErrChanged) {
					return errors.Join(err, left)
				}
			}
			return errors.Join(err, d.Remove())
		}),
	}
}

// maxTries is how often what was made is taken away.
const maxTries = 5

// giveUp releases a lease. One whose record is not to be reached is held until
// its time is over.
func giveUp(l *lock.Lease) error {
	err := l.Release()
	if err != nil && !errors.Is(err, lock.ErrCompromised) {
		<-l.Lost()
		err = l.Release()
	}
	return err
}
