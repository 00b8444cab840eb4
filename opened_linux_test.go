package caproot

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The window of a compare-and-swap between its look at the target and the claim:
// a FIFO that comes there is not the expected object and is not opened, which its
// writer would notice. The twin opens without a look.
func TestClaimOpensNoFifo(t *testing.T) {
	for naive, opened := range map[bool]bool{false: false, true: true} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			old, err := r.Receipt("f")
			must(t, err)
			must(t, unix.Mkfifo(base+"/fifo", 0o600))
			watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
			must(t, err)
			defer unix.Close(watch)
			_, err = unix.InotifyAddWatch(watch, base+"/fifo", unix.IN_OPEN)
			must(t, err)
			s := hook(r, nth(1, "open f", func() {
				must(t, os.Rename(base+"/fifo", base+"/root/f"))
				if naive {
					f, err := os.OpenFile(base+"/root/f", os.O_RDONLY|syscall.O_NONBLOCK, 0)
					must(t, err)
					must(t, f.Close())
				}
			}))
			_, err = r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
			want(t, "IfMatch", err, ErrChanged)
			if s.count("open f") == 0 {
				t.Error("the window was never open")
			}
			n, err := unix.Read(watch, make([]byte, 4096))
			if (n > 0) != opened {
				t.Errorf("naive %v: opened %v, %v", naive, n > 0, err)
			}
			noStage(t, base)
		})
	}
}

// The window of Lchown between its look at the name and the change: what is
// mounted there in between is not changed. The twin changes it by its name.
func TestLchownOfMountThatComes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if !ownMounts(t) {
		return
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/other", nil, 0o600))
		s := hook(r, once("open f", func() { bind(t, base+"/other", base+"/root/f") }))
		want(t, "Lchown", r.Lchown("f", 1, 1), ErrMount)
		if s.count("chown") != 0 || s.count("open f") == 0 {
			t.Errorf("calls %q", s.log)
		}
		uid := func() uint32 {
			info, err := os.Stat(base + "/other")
			must(t, err)
			return info.Sys().(*syscall.Stat_t).Uid
		}
		if got := uid(); got != 0 {
			t.Errorf("the mounted file belongs to %d", got)
		}
		must(t, os.Lchown(base+"/root/f", 1, 1))
		if got := uid(); got != 1 {
			t.Error("the twin did not reach the mounted file")
		}
	})
}
