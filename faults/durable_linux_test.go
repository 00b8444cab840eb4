package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/faultfs"
	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

// durableVerbs are calls that return when the directory is flushed too, with what
// must be there after a loss of power that follows.
var durableVerbs = map[string]struct {
	run  func(t *testing.T, r *caproot.Root) (identity.Durability, error)
	what map[string]string
}{
	"Put":           {settling(faultVerbs["Put"].run), map[string]string{"f": after}},
	"Put new":       {settling(faultVerbs["Put new"].run), map[string]string{"new": after}},
	"Put Parents":   {settling(faultVerbs["Put Parents"].run), map[string]string{"a/b/new": after}},
	"PutFrom":       {settling(faultVerbs["PutFrom"].run), map[string]string{"f": after}},
	"CopyIn":        {settling(faultVerbs["CopyIn"].run), map[string]string{"f": after}},
	"Batch":         {settling(faultVerbs["Batch"].run), map[string]string{"f": after, "new": after}},
	"Move Replace":  {settling(faultVerbs["Move Replace"].run), map[string]string{"g": before, "f": ""}},
	"Move":          {settling(faultVerbs["Move"].run), map[string]string{"dir/f": before, "f": ""}},
	"Batch, syncfs": {settling(manyFiles), map[string]string{"n0": after, "n17": after, "n39": after}},
	"Append": {settling(func(r *caproot.Root) (identity.Receipt, error) {
		return r.Append("f", []byte(" and more"), caproot.AppendOptions{})
	}), map[string]string{"f": before + " and more"}},
	"state.Update": {func(t *testing.T, r *caproot.Root) (identity.Durability, error) {
		return identity.DurabilityDir, state.Update(t.Context(), r, "s.json", func(n *int) error { *n = 7; return nil }, state.Options{})
	}, map[string]string{"s.json": "7\n"}},
	"lock, Durable": {func(t *testing.T, r *caproot.Root) (identity.Durability, error) {
		payload := func(context.Context) (any, error) { return "mine", nil }
		_, err := lock.Acquire(t.Context(), r, "held", lock.Options{Durable: true, Payload: payload})
		must(t, err)
		// The name is flushed by somebody else.
		_, err = r.Put("other", nil, caproot.PutOptions{})
		return identity.DurabilityDir, err
	}, map[string]string{"held.lock": `"mine"`}},
}

func settling(run func(*caproot.Root) (identity.Receipt, error)) func(*testing.T, *caproot.Root) (identity.Durability, error) {
	return func(_ *testing.T, r *caproot.Root) (identity.Durability, error) {
		receipt, err := run(r)
		return receipt.Durability, err
	}
}

// manyFiles is a batch that flushes the whole file system where that flushes.
func manyFiles(r *caproot.Root) (identity.Receipt, error) {
	b := r.Batch(caproot.BatchOptions{Barrier: caproot.BarrierFileSystem})
	defer b.Abort()
	for i := range 40 {
		if err := b.Put(fmt.Sprintf("n%d", i), []byte(after), caproot.PutOptions{}); err != nil {
			return identity.Receipt{}, err
		}
	}
	report, err := b.Commit(context.Background())
	if err != nil {
		return identity.Receipt{}, err
	}
	return report.Published[39], nil
}

// case 96: on a file system that keeps nothing but what was flushed, file by file
// and directory by directory, whatever returned as durable is there.
func TestWhatReturnedSurvives(t *testing.T) {
	for kind, o := range kinds() {
		f, base := mounted(t, o)
		for name, v := range durableVerbs {
			if kind == "bare" && name == "Move" {
				continue // ErrUnsupported, see TestEveryRequestFails
			}
			dir := base + "/run"
			must(t, os.RemoveAll(dir))
			fill(t, dir)
			f.FlushAll()
			r := opened(t, dir, durable())
			achieved, err := v.run(t, r)
			must(t, err)
			if achieved != identity.DurabilityDir {
				t.Errorf("%s, %s: achieved %v", kind, name, achieved)
			}
			files := f.Crash(nil).Files()
			for path, content := range v.what {
				got, there := files["run/"+path]
				if there != (content != "") || !strings.HasPrefix(got, content) {
					t.Errorf("%s, %s: %s holds %q after the crash", kind, name, path, got)
				}
			}
		}
	}
}

// What naive code leaves on the same file system.
func TestWhatReturnedSurvivesTwin(t *testing.T) {
	f, dir := mounted(t, faultfs.Options{})
	must(t, os.WriteFile(dir+"/f", []byte(before), 0o600))
	f.FlushAll()
	must(t, os.WriteFile(dir+"/stage", []byte(after), 0o600))
	must(t, os.Rename(dir+"/stage", dir+"/f"))
	d, err := os.Open(dir)
	must(t, err)
	must(t, d.Sync())
	must(t, d.Close())
	if got := f.Crash(nil).Files()["f"]; got != "" {
		t.Errorf("a rename before the content was flushed left %q: the crash shows nothing", got)
	}
}

// case 94, 96: power is lost before any request: the name holds a whole version,
// whatever the file system wrote of its own accord and whatever it did not.
func TestPowerLostBeforeEachRequest(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 4))
	crashes := 0
	for _, o := range kinds() {
		f, dir := mounted(t, o)
		for _, verb := range []string{"Put", "Put new", "Put NoReplace", "PutFrom", "CopyIn", "Batch", "Put Parents"} {
			must(t, os.RemoveAll(dir+"/run"))
			fill(t, dir+"/run")
			f.FlushAll()
			r := opened(t, dir+"/run", durable())
			f.Set(func(c faultfs.Call) faultfs.Answer {
				for range 8 {
					crashes++
					files := f.Crash(random).Files()
					if got := files["run/f"]; got != before && got != after {
						t.Errorf("%s, before %v: f holds %q", verb, c, got)
					}
					for _, name := range []string{"run/new", "run/a/b/new"} {
						if got, there := files[name]; there && got != after {
							t.Errorf("%s, before %v: %s holds %q", verb, c, name, got)
						}
					}
				}
				return faultfs.Answer{}
			})
			faultVerbs[verb].run(r)
			f.Set(nil)
		}
	}
	t.Logf("%d crashes", crashes)
}
