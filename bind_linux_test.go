package caproot

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A root from a descriptor is the same directory, independent of the original.
func TestFromFileAndBack(t *testing.T) {
	p := Workspace()
	p.Rights |= Share
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		f, err := r.File()
		must(t, err)
		second, err := FromFile(f, p)
		must(t, err)
		must(t, f.Close())
		o, err := os.OpenRoot(base + "/root")
		must(t, err)
		third, err := FromOSRoot(o, p)
		must(t, err)
		must(t, o.Close())
		// The path is not what they hold on to.
		must(t, os.Rename(base+"/root", base+"/moved"))
		first, err := r.Receipt(".")
		must(t, err)
		for _, other := range []*Root{second, third} {
			must(t, other.Check(first))
			if data, err := other.ReadFile("f"); string(data) != "content" || err != nil {
				t.Errorf("%q, %v", data, err)
			}
			want(t, "escape", verbs(other)["ReadFile"]("../outside/secret"), ErrEscape)
			must(t, other.Close())
		}
		must(t, os.Rename(base+"/moved", base+"/root"))
		// What File gives is close-on-exec.
		f, err = r.File()
		must(t, err)
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
		must(t, err)
		if flags&unix.FD_CLOEXEC == 0 {
			t.Error("inherited by every child")
		}
		must(t, f.Close())
	})
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		_, err := r.File()
		want(t, "File without Share", err, ErrPolicy)
	})
}

// Close of a root waits for a call in flight and lets no other in.
func TestRootCloseWaits(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		in, out := make(chan struct{}), make(chan struct{})
		hook(r, nth(1, "read", func() { close(in); <-out }))
		var data []byte
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { data, err = r.ReadFile("f") })
		<-in
		for range 3 { // the second and third wait for the first
			wg.Go(func() {
				if err := r.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		for {
			if _, err := r.Exists("f"); errors.Is(err, fs.ErrClosed) {
				break
			}
		}
		close(out)
		wg.Wait()
		if string(data) != "content" || err != nil {
			t.Errorf("the call in flight: %q, %v", data, err)
		}
		if code := Code(verbs(r)["Stat"]("f")); code != "closed" {
			t.Errorf("code %q", code)
		}
		must(t, r.Close())
		// eachResolver counts descriptors: give back what the root held.
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
	})
}

// A parent passes a root to a child process.
func TestRootOfParent(t *testing.T) {
	if os.Getenv("CAPROOT_CHILD") != "" {
		r, err := FromFile(os.NewFile(3, "workspace"), Workspace())
		must(t, err)
		must(t, r.WriteFile("from-child", []byte("hello"), 0o600))
		want(t, "escape", r.WriteFile("../outside/from-child", nil, 0o600), ErrEscape)
		return
	}
	p := Workspace()
	p.Rights |= Share
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		f, err := r.File()
		must(t, err)
		defer f.Close()
		child := exec.Command(os.Args[0], "-test.run=^TestRootOfParent$")
		child.Env = append(os.Environ(), "CAPROOT_CHILD=1")
		child.ExtraFiles = []*os.File{f}
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := content(t, base, "from-child"); got != "hello" {
			t.Errorf("content %q", got)
		}
	})
}
