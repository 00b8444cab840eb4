package caproot

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A name that becomes a link while the grant is made is denied all the same,
// not only what the link leads to. The window: between the look at the name and
// the entering of the directory. The attack on a tree of grants found it. case 30.
func TestDenyNameSwappedWhileGranted(t *testing.T) {
	for _, event := range []string{"stat .git", "enter .git"} {
		for _, way := range []string{".git", ".git/config"} {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				hidden(t, base)
				must(t, os.Symlink("deep/er", base+"/root/other"))
				exchange := func() {
					must(t, unix.Renameat2(unix.AT_FDCWD, base+"/root/.git", unix.AT_FDCWD, base+"/root/other", unix.RENAME_EXCHANGE))
				}
				swapped := false
				hook(r, once(event, func() { swapped = true; exchange() }))
				sub, err := r.Grant(".", Grant{Policy: Workspace(), Deny: []string{way}})
				must(t, err)
				defer sub.Close()
				if !swapped {
					t.Fatalf("no %q", event)
				}
				exchange()
				_, err = sub.ReadFile(".git/config")
				want(t, event+", "+way, err, ErrPolicy)
			})
		}
	}
}

// A link on the way to a denied name that becomes a directory does not uncover
// the name.
func TestDenyHoldsWhenLinkBecomesDirectory(t *testing.T) {
	denies(t, Workspace(), []string{"x/config"}, func(t *testing.T, sub *Root, base string) {
		must(t, os.Remove(base+"/root/x"))
		must(t, os.Mkdir(base+"/root/x", 0o755))
		must(t, os.WriteFile(base+"/root/x/config", []byte("denied"), 0o644))
		refusesAll(t, sub, base, "x/config")
	})
}
