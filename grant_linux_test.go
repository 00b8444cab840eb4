package caproot

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A policy with BindPath in a grant binds the grant to its own path.
func TestGrantBindsPath(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		p := Workspace()
		p.Bind = BindPath
		sub, err := r.Grant("dir", Grant{Policy: p})
		must(t, err)
		defer sub.Close()
		must(t, verbs(sub)["ReadFile"]("file"))
		must(t, unix.Renameat2(unix.AT_FDCWD, base+"/root/dir", unix.AT_FDCWD, base+"/root/in", unix.RENAME_EXCHANGE))
		want(t, "after a move", verbs(sub)["ReadFile"]("file"), ErrChanged)
	})
}
