package caproot

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// raceTree makes the directory w of 20 directories with n/20 in each, which
// hold a file. An attacker exchanges one after the other with a link to the
// outside and back, fifty times each, until stop is called.
func raceTree(t *testing.T, base string, n int) (stop func()) {
	t.Helper()
	growRaceTree(t, base, n)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		evil := base + "/root/evil"
		for {
			victim := fmt.Sprintf("%s/root/w/%d", base, rand.IntN(20))
			if rand.IntN(4) > 0 {
				victim += fmt.Sprintf("/%d", rand.IntN(n/20))
			}
			// A removal may have taken the link in the victim's place.
			os.RemoveAll(evil)
			os.Symlink(base+"/outside", evil)
			for range 50 {
				select {
				case <-quit:
					return
				default:
				}
				if unix.Renameat2(unix.AT_FDCWD, victim, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE) != nil {
					break // it is not there, or its parent is exchanged
				}
				for range rand.IntN(100) {
					unix.Getppid() // leaves the link there for some microseconds
				}
				unix.Renameat2(unix.AT_FDCWD, victim, unix.AT_FDCWD, evil, unix.RENAME_EXCHANGE)
			}
		}
	})
	return sync.OnceFunc(func() { close(quit); wg.Wait() })
}

// growRaceTree makes what is missing of the tree w, and nothing outside.
func growRaceTree(t *testing.T, base string, n int) {
	t.Helper()
	o, err := os.OpenRoot(base + "/root")
	must(t, err)
	defer o.Close()
	for i := range 20 {
		for j := range n / 20 {
			dir := fmt.Sprintf("w/%d/%d", i, j)
			if o.MkdirAll(dir, 0o755) == nil {
				o.WriteFile(dir+"/file", []byte("inside"), 0o644)
			}
		}
	}
}

// The attack of raceTree leads a walk by path outside: the twin of the races below.
func TestTreeRaceTwin(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/outside", 0o755))
	must(t, os.WriteFile(base+"/outside/secret", nil, 0o644))
	must(t, os.MkdirAll(base+"/root", 0o755))
	defer raceTree(t, base, 20)()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		if naiveWalkSees(base+"/root/w", "secret") {
			return
		}
	}
	t.Error("the naive walk was never caught: the attack is too weak to prove anything")
}

// naiveWalkSees checks each directory for a link and then lists it by its path.
func naiveWalkSees(dir, name string) bool {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() == name || e.IsDir() && naiveWalkSees(dir+"/"+e.Name(), name) {
			return true
		}
	}
	return false
}

// case 167: a walk of directories that flip between themselves and a link to
// the outside sees nothing of it.
func TestWalkRace(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		defer raceTree(t, base, 2000)()
		eachWorkers(t, func(t *testing.T, o WalkOptions) {
			o.InlineErrors = true
			entries := 0
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				for e, err := range r.Walk(t.Context(), "w", o) {
					if err != nil {
						if Code(err) != "changed" {
							t.Error(err)
						}
						continue
					}
					if entries++; e.Name() == "secret" {
						t.Fatalf("saw %s", e.Path())
					}
					if f, err := e.Open(); err == nil && e.Name() == "file" {
						data, _ := io.ReadAll(f)
						if f.Close(); string(data) != "inside" {
							t.Fatalf("%s holds %q", e.Path(), data)
						}
					} else if err == nil {
						f.Close()
					}
				}
			}
			if entries < 2000 {
				t.Errorf("only %d entries", entries)
			}
		})
	})
}
