package caproot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// attacker exchanges a directory of the root with a link to the outside, as
// fast as it can, until stop is closed.
func attacker(t *testing.T, base string, stop chan struct{}) *sync.WaitGroup {
	must(t, os.MkdirAll(base+"/root/victim/sub", 0o755))
	must(t, os.WriteFile(base+"/root/victim/secret", []byte("inside"), 0o644))
	must(t, os.Symlink("../outside", base+"/root/evil"))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, base+"/root/victim", unix.AT_FDCWD, base+"/root/evil", unix.RENAME_EXCHANGE)
			}
		}
	})
	return &wg
}

// The attack works on a check followed by a use of the same path: the twin of
// TestExchangeRace.
func TestExchangeRaceTwin(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/outside", 0o755))
	must(t, os.WriteFile(base+"/outside/secret", []byte("secret"), 0o644))
	must(t, os.MkdirAll(base+"/root", 0o755))
	stop := make(chan struct{})
	wg := attacker(t, base, stop)
	defer wg.Wait()
	defer close(stop)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		path, err := filepath.EvalSymlinks(base + "/root/victim")
		if err != nil || !strings.HasPrefix(path, base+"/root/") {
			continue
		}
		if data, _ := os.ReadFile(base + "/root/victim/secret"); string(data) == "secret" {
			return
		}
	}
	t.Error("the naive reader was never caught: the attack is too weak to prove anything")
}

// cases 3, 13, 15, 16, 18: each verb against a directory that flips between
// itself and a link to the outside. The outside is sealed by eachResolver.
func TestExchangeRace(t *testing.T) {
	for _, p := range []Policy{Workspace(), Compat()} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			stop := make(chan struct{})
			wg := attacker(t, base, stop)
			calls := verbs(r)
			rounds := 0
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); rounds++ {
				if data, err := r.ReadFile("victim/secret"); err == nil && string(data) == "secret" {
					t.Error("read the outside's secret")
					break
				}
				for verb, call := range calls {
					if strings.HasSuffix(verb, "All") && rounds%8 != 0 {
						continue
					}
					name := fmt.Sprintf("victim/n%d", rounds%4)
					if rounds%3 == 0 {
						name = "victim/secret"
					}
					if err := call(name); errors.Is(err, unix.EAGAIN) {
						t.Errorf("%s: %v", verb, err)
					}
				}
				os.WriteFile(base+"/root/f", nil, 0o644)
			}
			close(stop)
			wg.Wait()
			giveBack(t, base+"/root")
			if rounds < 10 {
				t.Errorf("only %d rounds", rounds)
			}
		})
	}
}

func putLoop(dir string) {
	r, err := Open(dir, Workspace())
	if err != nil {
		panic(err)
	}
	p := PutOptions{Durability: DurabilityNone}
	for i := byte(0); ; i++ {
		data := bytes.Repeat([]byte{'a' + i%26}, 8192)
		if _, err := r.Put("target", data, p); err != nil {
			panic(err)
		}
		if _, err := r.Put(fmt.Sprintf("new/%d-%d", os.Getpid(), i), data[:100], PutOptions{NoReplace: true}); err != nil {
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			panic(err)
		}
	}
}

// A process killed in a loop of puts leaves one whole version of the target and
// no litter beside creations. cases 106, 94.
func TestKillDuringPut(t *testing.T) {
	kills := 60
	if os.Getenv("CAPROOT_KILLS") != "" {
		fmt.Sscan(os.Getenv("CAPROOT_KILLS"), &kills)
	}
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/new", 0o755))
	for i := range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CAPROOT_PUT_LOOP="+dir)
		must(t, cmd.Start())
		// A busy machine may begin late, but somewhere it must.
		for begin := time.Now(); i == 0 && len(listed(t, dir+"/new")) == 0 && time.Since(begin) < 10*time.Second; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(5+rand.Intn(20)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		data, err := os.ReadFile(dir + "/target")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		if len(data) != 8192 || bytes.Count(data, data[:1]) != 8192 {
			t.Fatalf("torn target: %d bytes", len(data))
		}
	}
	entries, err := os.ReadDir(dir + "/new")
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("a creation left %s", e.Name())
		}
	}
	if len(entries) == 0 {
		t.Error("no child ever got to work")
	}
	r, err := Open(dir, Workspace())
	must(t, err)
	defer r.Close()
	_, err = r.Sweep(".")
	must(t, err)
	left, err := filepath.Glob(dir + "/" + stagePrefix + "*")
	must(t, err)
	if len(left) != 0 {
		t.Errorf("a sweep left %q", left)
	}
}

// case 68: a receipt does not take the next file under the same number for its own.
func TestReceiptNoticesReuse(t *testing.T) {
	for _, dir := range []string{t.TempDir(), shm(t)} {
		r, err := Open(dir, Workspace())
		must(t, err)
		defer r.Close()
		for range 100 {
			old, err := r.Put("f", []byte("same"), PutOptions{Durability: DurabilityNone})
			must(t, err)
			must(t, r.Remove("f"))
			_, err = r.Put("f", []byte("same"), PutOptions{Durability: DurabilityNone})
			must(t, err)
			now, err := r.Receipt("f")
			must(t, err)
			if v, why := old.Compare(now); v == identity.Same {
				t.Fatalf("%s: %v by %s", dir, v, why)
			}
		}
	}
}

func shm(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "caproot")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { discard(dir) })
	return dir
}

// case 94: a full disk keeps the old bytes and leaves no stage. Needs a mount.
func TestFullDisk(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no mount of a small tmpfs: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	r, err := Open(dir, Workspace())
	must(t, err)
	defer r.Close()
	old := bytes.Repeat([]byte("o"), 1024)
	_, err = r.Put("f", old, PutOptions{})
	must(t, err)
	for _, name := range []string{"f", "new"} {
		_, err = r.Put(name, make([]byte, 400<<10), PutOptions{})
		want(t, "Put "+name, err, unix.ENOSPC)
	}
	if data, err := os.ReadFile(dir + "/f"); err != nil || !bytes.Equal(data, old) {
		t.Errorf("old bytes: %d, %v", len(data), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	_, err = r.Put("f", []byte("small"), PutOptions{})
	must(t, err)
}
