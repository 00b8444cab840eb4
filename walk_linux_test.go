package caproot

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// cases 170, 171: a listing that fails is told, the rest is seen; an entry that
// vanishes is passed over.
func TestWalkFaults(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ESTALE, syscall.EACCES} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			must(t, os.MkdirAll(base+"/root/dir/bad/below", 0o755))
			must(t, os.MkdirAll(base+"/root/dir/good/below", 0o755))
			var bad syscall.Stat_t
			must(t, syscall.Stat(base+"/root/dir/bad", &bad))
			real := r.sys
			r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
				if st, err := real.stat(h, "", false); err == nil && st.ino == bad.Ino {
					return nil, fault
				}
				return real.list(h, scratch)
			}}
			defer func() { r.sys = real }()
			eachWorkers(t, func(t *testing.T, o WalkOptions) {
				o.InlineErrors = true
				wantPaths(t, "in line", walked(t, r, "dir", o), "dir/bad", "dir/bad: "+Code(fault), "dir/file", "dir/good", "dir/good/below")
				o.InlineErrors = false
				failed := 0
				for _, err := range r.Walk(t.Context(), "dir", o) {
					if err != nil {
						failed++
						want(t, "failing", err, fault)
					}
				}
				if failed != 1 {
					t.Errorf("%d errors", failed)
				}
			})
		})
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/dir/gone", 0o755))
		real := r.sys
		r.sys = &listFault{real, func(h handle, scratch []byte) ([]direntry, error) {
			entries, err := real.list(h, scratch)
			os.Remove(base + "/root/dir/gone")
			os.Remove(base + "/root/dir/file")
			return entries, err
		}}
		defer func() { r.sys = real }()
		wantPaths(t, "vanished", walked(t, r, "dir", WalkOptions{Info: true}))
	})
}

// listFault changes what listings answer.
type listFault struct {
	system
	list1 func(h handle, scratch []byte) ([]direntry, error)
}

func (l *listFault) list(h handle, scratch []byte) ([]direntry, error) { return l.list1(h, scratch) }

func TestEntryOfRevokedWalk(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		g, err := r.Grant(".", Grant{Policy: Workspace()})
		must(t, err)
		defer g.Close()
		seen, asked := 0, 0
		for e, err := range g.Walk(t.Context(), ".", WalkOptions{MaxDepth: 1, Truncate: true}) {
			if err != nil {
				break
			}
			if seen++; seen == 1 {
				g.Revoke()
			}
			if e.st != nil {
				continue
			}
			asked++
			_, err = e.Info()
			want(t, "Info after Revoke", err, ErrRevoked)
		}
		if asked == 0 {
			t.Error("no entry was asked")
		}
	})
}

func TestWalkDirWithoutFunction(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		want(t, "WalkDir", r.WalkDir(".", nil), fs.ErrInvalid)
	})
}
