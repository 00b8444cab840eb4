package caproot

import (
	"bytes"
	"os"
	"slices"
	"syscall"
	"testing"
)

// The group's bits of a file with an access list are its mask: a copy with that
// mode and without the list would let the owning group in, and others that an
// entry refused. It gets the list, or the owner's bits alone.
func TestCopiesKeepAccessList(t *testing.T) {
	list := aclOf(6, 6, 0)
	copies := map[string]func(r *Root) (lost []string, err error){
		"Move": func(r *Root) ([]string, error) {
			receipt, err := r.Move("f", "m/f", MoveOptions{CrossDevice: true})
			return receipt.Lost, err
		},
		"CopyIn": func(r *Root) ([]string, error) {
			receipt, err := r.CopyIn(t.Context(), "m/f", Source{Root: r, Name: "f"}, CopyOptions{KeepMode: true})
			return receipt.Lost, err
		},
	}
	for verb, copy := range copies {
		eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
			setACL(t, base+"/root/f", "access", list)
			setACL(t, base+"/root/m", "default", aclOf(7, 7, 7))
			lost, err := copy(r)
			must(t, err)
			if got := aclAt(t, base+"/root/m/f"); !bytes.Equal(got, list) || lost != nil {
				t.Errorf("%s: list %x, want %x, lost %q", verb, got, list, lost)
			}
			wantMode(t, base, "m/f", 0o660)
		})
		eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
			setACL(t, base+"/root/f", "access", list)
			hook(r, answers(map[string]error{"copyaccess": syscall.EIO}))
			lost, err := copy(r)
			must(t, err)
			wantMode(t, base, "m/f", 0o600)
			if !slices.Contains(lost, "access-list") {
				t.Errorf("%s: lost %q", verb, lost)
			}
		})
	}
}

// A directory gets no list, so not the bits that it masks either.
func TestDirectoriesLoseAccessList(t *testing.T) {
	for verb, copy := range map[string]func(r *Root) error{
		"Move": func(r *Root) error { return errOf(r.Move("dir", "m/dir", MoveOptions{CrossDevice: true})) },
		"CopyTree": func(r *Root) error {
			return errOf(r.CopyTree(t.Context(), "m/dir", r, "dir", TreeCopyOptions{File: CopyOptions{KeepMode: true}}))
		},
	} {
		eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
			must(t, os.Mkdir(base+"/root/dir/sub", 0o755))
			must(t, os.Mkdir(base+"/root/dir/plain", 0o755))
			setACL(t, base+"/root/dir", "access", aclOf(7, 7, 5))
			setACL(t, base+"/root/dir/sub", "access", aclOf(7, 7, 5))
			must(t, copy(r))
			if verb == "Move" {
				wantMode(t, base, "m/dir", 0o600)
			}
			wantMode(t, base, "m/dir/sub", 0o600)
			wantMode(t, base, "m/dir/plain", 0o755)
		})
	}
}
