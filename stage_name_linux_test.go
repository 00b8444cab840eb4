package caproot

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

// case 106: what a process leaves that is killed in an exchange is swept: the new
// file before it, the expected one after it.
func TestSweepOfKilledSwap(t *testing.T) {
	if dir := os.Getenv("CAPROOT_SWAPPING"); dir != "" {
		dieInSwap(t, dir, os.Getenv("CAPROOT_SWAP_CALL"))
	}
	for call, f := range map[string]string{"rename exchange": "content", "remove STAGE": "mine"} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			child := exec.Command(os.Args[0], "-test.run=^TestSweepOfKilledSwap$")
			child.Env = append(os.Environ(), "CAPROOT_SWAPPING="+base+"/root", "CAPROOT_SWAP_CALL="+call)
			out, _ := child.CombinedOutput()
			if !wasKilled(child.ProcessState) {
				t.Fatalf("%s", out)
			}
			left := stageIn(t, base)
			if !isStageName(filepath.Base(left)) {
				t.Fatalf("left %s", left)
			}
			n, err := r.Sweep(".")
			must(t, err)
			if got := content(t, base, "f"); n != 1 || got != f {
				t.Errorf("killed at %s: swept %d, f holds %q", call, n, got)
			}
			noStage(t, base)
		})
	}
}

// The expected file that was displaced is left alone while its swap lives.
func TestSweepSparesLiveSwap(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f")
		must(t, err)
		other, err := Open(base+"/root", Workspace())
		must(t, err)
		defer other.Close()
		swept := -1
		hook(r, once("remove STAGE", func() { swept, _ = other.Sweep(".") }))
		receipt, err := r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
		must(t, err)
		if swept != 0 || receipt.Published != identity.Swapped || receipt.Lost != nil {
			t.Errorf("swept %d, %+v", swept, receipt)
		}
		noStage(t, base)
	})
}

// dieInSwap is the process that is killed in a compare-and-swap, before a call.
func dieInSwap(t *testing.T, dir, call string) {
	r, err := Open(dir, Workspace())
	must(t, err)
	old, err := r.Receipt("f")
	must(t, err)
	hook(r, once(call, func() {
		killSelf()
		select {}
	}))
	_, err = r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
	t.Fatalf("alive after %v", err)
}

// killSelf ends the process as the system does it to one that cannot object.
func killSelf() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// wasKilled tells that killSelf was what ended the process.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// case 106: a link whose target has the form of a stage's name would have a write
// through it swept away.
func TestSymlinkToStageNameIsRefused(t *testing.T) {
	p := Workspace()
	p.MutationLinks = LinksFollow
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		stage := newStageName()
		for _, target := range []string{stage, "dir/" + stage, stage + "/", "./" + stage} {
			want(t, target, r.Symlink(target, "notes"), ErrName)
			if _, err := os.Lstat(base + "/root/notes"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: left a link", target)
			}
		}
		must(t, r.Symlink(stage+"/file", "notes"))
	})
}

// A file without a name any more cannot be given one, which says nothing about
// the name that was asked for.
func TestNameRemovedFile(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		path := base + "/root/gone"
		must(t, os.WriteFile(path, nil, 0o600))
		f, err := os.Open(path)
		must(t, err)
		defer f.Close()
		must(t, os.Remove(path))
		err = r.NameUnnamed(f, "named")
		want(t, "removed", err, ErrUnsupported)
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("looks like an absent name: %v", err)
		}
	})
}
