package caproot

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Whoever gives the stage another name between the last look at it and its removal
// keeps the file: it stays charged. Each window is one call of the verb.
func TestNoRefundForAFileThatStays(t *testing.T) {
	for _, window := range []string{"stat STAGE", "remove STAGE"} {
		for n := 1; n <= 3; n++ {
			granted(t, Workspace(), Grant{Policy: Workspace(), Budget: &Budget{NoLimit, NoLimit}}, func(t *testing.T, sub *Root, base string) {
				hook(sub, both(nth(n, window, func() { takeStage(t, base) }), answers(map[string]error{"unnamed": syscall.EOPNOTSUPP})))
				s, err := sub.Stage("x", PutOptions{})
				if err == nil {
					s.Write(make([]byte, 4))
					s.Abort()
				}
				there := filesThere(t, base)
				if spent := sub.Spent(); spent.Files < there.Files || spent.Bytes < there.Bytes {
					t.Errorf("%s %d: spent %+v for %+v, %v", window, n, spent, there, err)
				}
			})
		}
	}
}

// A link that replaces a file has a stage's name first.
func TestNoRefundForALinkThatStays(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Budget: &Budget{NoLimit, NoLimit}}, func(t *testing.T, sub *Root, base string) {
		must(t, os.WriteFile(base+"/root/over", nil, 0o600))
		hook(sub, both(once("rename replace STAGE", func() { takeStage(t, base) }), func(string) error { return nil }))
		err := sub.linkOver("f", "over")
		if spent := sub.Spent(); err == nil || spent != (Budget{Files: 1}) {
			t.Errorf("spent %+v, %v", spent, err)
		}
	})
}

// A stage that was removed is paid back, with the file that came in its place or
// without.
func TestRefundOfARemovedStage(t *testing.T) {
	granted(t, Workspace(), Grant{Policy: Workspace(), Budget: &Budget{NoLimit, NoLimit}}, func(t *testing.T, sub *Root, base string) {
		hook(sub, both(once("remove STAGE", func() {
			for _, stage := range stages(t, base) {
				must(t, os.Remove(stage))
				must(t, os.WriteFile(stage, nil, 0o600))
			}
		}), answers(map[string]error{"unnamed": syscall.EOPNOTSUPP})))
		must(t, stageAndAbort(sub))
		if spent := sub.Spent(); spent != (Budget{}) {
			t.Errorf("spent %+v", spent)
		}
	})
}

func stages(t *testing.T, base string) []string {
	found, err := filepath.Glob(base + "/root/" + stagePrefix + "*")
	must(t, err)
	return found
}

func takeStage(t *testing.T, base string) {
	for _, stage := range stages(t, base) {
		must(t, os.Rename(stage, base+"/root/kept"))
	}
}

// filesThere is what was taken, as a Budget.
func filesThere(t *testing.T, base string) (b Budget) {
	for _, name := range append(stages(t, base), base+"/root/kept") {
		if info, err := os.Stat(name); err == nil {
			b.Files++
			b.Bytes += info.Size()
		}
	}
	return b
}
