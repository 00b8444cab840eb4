package caproot

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caproot/caproot/identity"
)

// Where a file that is open cannot be replaced, as on Windows without the renames
// of POSIX, the expected file is compared again and replaced without its lock,
// and the receipt says so. What came meanwhile is a change.
func TestSwapOfOpenTarget(t *testing.T) {
	for _, meanwhile := range []string{"", "theirs"} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			old, err := r.Receipt("f")
			must(t, err)
			refused := 0
			s := hook(r, nil)
			s.before = func(event string) error {
				switch {
				case strings.HasPrefix(event, "rename exchange"):
					return errNotHere
				case strings.HasPrefix(event, "rename replace") && refused == 0:
					refused++
					if meanwhile != "" {
						must(t, os.Rename(base+"/root/f", base+"/root/kept"))
						must(t, os.WriteFile(base+"/root/f", []byte(meanwhile), 0o600))
					}
					return fs.ErrPermission
				}
				return nil
			}
			receipt, err := r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
			noStage(t, base)
			if meanwhile != "" {
				want(t, "Put", err, ErrChanged)
				if got := content(t, base, "f"); got != meanwhile || receipt.Published != identity.Unpublished {
					t.Errorf("f holds %q, %+v", got, receipt)
				}
				return
			}
			must(t, err)
			if got := content(t, base, "f"); got != "mine" || receipt.Published != identity.Checked || !slices.Contains(receipt.Lost, "swap-lock") {
				t.Errorf("f holds %q, %+v", got, receipt)
			}
		})
	}
}
