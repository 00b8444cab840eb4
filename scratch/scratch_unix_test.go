//go:build linux || darwin || freebsd

package scratch

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
)

// Case 157, the scratch directory: removed, and the status is the signal's.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			t.Logf("%v: the process was started with it ignored, as by nohup", sig)
			continue
		}
		dir, tmp, _ := place(t)
		c := start(t, dir, "return")
		must(t, c.cmd.Process.Signal(sig))
		var ended *exec.ExitError
		if !errors.As(c.cmd.Wait(), &ended) || ended.Sys().(syscall.WaitStatus).Signal() != sig {
			t.Errorf("%v: ended by %v", sig, ended)
		}
		wantNames(t, tmp)
	}
}

// A link that somebody put in the place of a directory leads nowhere.
func TestOpenSameFollowsNothing(t *testing.T) {
	_, tmp, r := place(t)
	must(t, os.Mkdir(filepath.Join(tmp, "real"), 0o700))
	must(t, os.Symlink("real", filepath.Join(tmp, "link")))
	for name, want := range map[string]error{"tmp/real": nil, "tmp/link": caproot.ErrChanged} {
		sub, _, err := openSame(r, name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			sub.Close()
		}
	}
}

// Case 165: the directory is replaced before it is removed.
func TestReplaced(t *testing.T) {
	for _, replacement := range []string{"link", "directory"} {
		t.Run(replacement, func(t *testing.T) {
			dir, tmp, r := place(t)
			outside := t.TempDir()
			for _, kept := range []string{outside, filepath.Join(outside, contentName)} {
				must(t, os.MkdirAll(kept, 0o700))
				must(t, os.WriteFile(filepath.Join(kept, "keep"), []byte("x"), 0o600))
			}
			must(t, os.WriteFile(filepath.Join(outside, ownerName), nil, 0o600))
			d, err := New(r, "tmp", Options{Prefix: prefix})
			must(t, err)
			_, err = d.Root().Put("file", []byte("secret"), caproot.PutOptions{})
			must(t, err)
			named := filepath.Join(tmp, d.Name())
			must(t, os.Rename(named, filepath.Join(dir, "moved")))
			if replacement == "link" {
				must(t, os.Symlink(outside, named))
			} else {
				must(t, os.Rename(outside, named))
				outside = named
			}
			if err := d.Remove(); !errors.Is(err, caproot.ErrChanged) {
				t.Errorf("Remove: %v, want ErrChanged", err)
			}
			must(t, d.Remove())
			wantNames(t, outside, contentName, "keep", ownerName)
			wantNames(t, filepath.Join(outside, contentName), "keep")
			wantNames(t, tmp, d.Name())
			wantNames(t, filepath.Join(dir, "moved")) // the work went with its directory
			if replacement == "link" {
				if removed, err := Sweep(t.Context(), r, "tmp", prefix, 0); len(removed) != 0 || err != nil {
					t.Errorf("swept %q: %v", removed, err)
				}
			}
		})
	}
}
