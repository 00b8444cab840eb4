package interop

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Two Go processes with advisory locks and two shells with flock(1) count under
// contention.
func TestFlockCommandCounts(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("no flock(1) on this system")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/count", []byte("0"), 0o600))
	const shell = `set -eC
		for i in $(seq "$2"); do
			"$1" t sh -eCc ': >count.inside; n=$(cat count); printf %d $((n + 1)) >|count; rm count.inside'
		done`
	var shells []*exec.Cmd
	for range 2 {
		c := exec.Command("sh", "-c", shell, "sh", flock, strconv.Itoa(rounds))
		c.Dir, c.Stderr = dir, os.Stderr
		must(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		shells = append(shells, c)
	}
	peers := []*peer{startGo(t, "advisory"), startGo(t, "advisory")}
	var ids []int
	for _, p := range peers {
		ids = append(ids, p.begin(command{Op: "count", Target: dir + "/t", Counter: dir + "/count", N: rounds}))
	}
	for i, p := range peers {
		if a := p.next(ids[i]); a.Code != "" || a.Counted != rounds {
			t.Errorf("peer %d: %v after %d", i, a, a.Counted)
		}
	}
	for _, c := range shells {
		must(t, c.Wait())
	}
	data, err := os.ReadFile(dir + "/count")
	must(t, err)
	if string(data) != strconv.Itoa(4*rounds) {
		t.Errorf("counted %s, want %d", data, 4*rounds)
	}
}
