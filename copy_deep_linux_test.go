package caproot

import (
	"os"
	"strings"
	"testing"
)

// case 168: a copy of a deep tree costs neither stack nor descriptors. The depth
// is less than that of a walk, because each directory is made by its whole path.
func TestCopyDeepTree(t *testing.T) {
	const depth = 2000
	p := Workspace()
	p.Durability = DurabilityNone
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/deep", 0o755))
		t.Cleanup(func() { r.RemoveAll("deep") })
		deepTree(t, base+"/root/deep", depth)
		to := twin(t, r, base)
		defer to.Close()
		_, err := r.Put("deep/"+strings.Repeat("d/", depth)+"f", []byte("deep"), PutOptions{})
		must(t, err)
		fewHandles(t, 128) // the walk and a resolution hold 50 each
		report, err := to.CopyTree(t.Context(), "deep", r, "deep", TreeCopyOptions{})
		must(t, err)
		if report.Dirs != depth || report.Files != 1 {
			t.Errorf("%+v", report)
		}
		if data, err := to.ReadFile("deep/" + strings.Repeat("d/", depth) + "f"); string(data) != "deep" {
			t.Errorf("%q, %v", data, err)
		}
		must(t, to.RemoveAll("deep"))
		must(t, r.RemoveAll("deep"))
	})
}
