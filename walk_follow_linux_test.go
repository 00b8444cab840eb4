package caproot

import (
	"os"
	"strings"
	"testing"
)

// case 172: a mount shows the root, or a directory beside, a second time; each
// directory is entered once all the same, and none from the root to the start.
func TestWalkFollowsEachMountedOnce(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		for _, dir := range []string{"w/a/m", "w/a/x", "w/again", "beside/deep"} {
			must(t, os.MkdirAll(base+"/root/"+dir, 0o755))
		}
		must(t, os.WriteFile(base+"/root/w/a/x/f", nil, 0o644))
		bind(t, base+"/root", base+"/root/w/a/m")
		bind(t, base+"/root/w/a/x", base+"/root/w/again")
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.FollowLinks, o.Mounts = true, MountsCross
			wantPaths(t, "below the root", walked(t, r, "w/a", o), "w/a/m", "w/a/x", "w/a/x/f")
			files := 0
			for _, path := range walked(t, r, "w", o) {
				if strings.HasSuffix(path, "/f") {
					files++
				}
			}
			if files != 1 {
				t.Errorf("%d times entered", files)
			}
		})
	})
}

// case 168: a link costs no more descriptors than the way to it, which they share.
func TestWalkFollowsWithFewDescriptors(t *testing.T) {
	const depth = 4 * maxHeld
	down := strings.Repeat("d/", depth)
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/deep/"+down+"real", 0o755))
		must(t, os.MkdirAll(base+"/root/other/"+down+"f", 0o755))
		must(t, os.Symlink(strings.Repeat("../", depth+1)+"other/"+down, base+"/root/deep/"+down+"link"))
		before, most, entries := openFDs(t), 0, 0
		hook(r, func(string) error {
			most = max(most, openFDs(t)-before)
			return nil
		})
		for _, err := range r.Walk(t.Context(), "deep", WalkOptions{FollowLinks: true}) {
			must(t, err)
			entries++
		}
		if entries != depth+3 || most > 50 {
			t.Errorf("%d entries, %d descriptors", entries, most)
		}
	})
}
