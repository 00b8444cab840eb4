package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/blocklog"
)

// diskBytes is enough for a journal, and little to copy.
const diskBytes = 16 << 20

// formatted is the image of an empty ext4 with a journal, or the reason to skip.
func formatted(t *testing.T) []byte {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, need := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(need); err != nil {
			t.Skip(err)
		}
	}
	file := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, diskBytes))
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0", file).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("mkfs: %v: %s", err, out)
	}
	image, err := os.ReadFile(file)
	must(t, err)
	return image
}

// powered is a mounted ext4 on a disk that remembers.
func powered(t *testing.T, image []byte) (d *blocklog.Disk, dir string) {
	t.Helper()
	d = blocklog.New(image)
	device, detach, err := d.Attach(t.TempDir())
	if err != nil {
		t.Skipf("no loop device over FUSE: %v", err)
	}
	dir = t.TempDir()
	must(t, syscall.Mount(device, dir, "ext4", 0, ""))
	t.Cleanup(func() {
		syscall.Unmount(dir, 0)
		detach()
	})
	return d, dir
}

// withCut mounts what a loss of power left, which replays the journal, and looks.
func withCut(t *testing.T, image []byte, look func(dir string)) {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "cut"), t.TempDir()
	must(t, os.WriteFile(file, image, 0o600))
	defer os.Remove(file)
	device, free, err := blocklog.Loop(file)
	must(t, err)
	defer free()
	if err := syscall.Mount(device, dir, "ext4", 0, ""); err != nil {
		t.Errorf("the file system does not mount after the cut: %v", err)
		return
	}
	defer func() { must(t, syscall.Unmount(dir, 0)) }()
	look(dir)
}

// cuts is how often power is lost in a test.
func cuts(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CAPROOT_POWER_CUTS"), "60"))
	must(t, err)
	return n
}

// Power is lost at random positions of the log of a disk, whole sectors that were
// not flushed yet kept or lost at random, under Put, Append, Batch, Move, state,
// sidecars and leases. Whatever returned as durable is there, and every name holds
// one whole version.
func TestPowerLoss(t *testing.T) {
	image := formatted(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	d, dir := powered(t, image)
	h := newHistory(t, d, dir, random)
	for range 120 {
		h.step(t)
	}
	end := d.Position()
	var findings int
	for i := range cuts(t) {
		position := random.IntN(end + 1)
		partly := random
		if i%3 == 0 {
			partly = nil
		}
		withCut(t, d.Cut(position, partly), func(dir string) {
			for _, f := range h.judge(dir, position) {
				findings++
				t.Errorf("seed %d, cut at %d of %d: %s", seed, position, end, f)
			}
		})
	}
	t.Logf("%d calls returned as durable, %d writes and flushes of the disk, %d flushes, %d cuts, %d findings", h.calls, end, d.Flushes(), cuts(t), findings)
}

// The same for code that forgets a flush: it is found.
func TestPowerLossTwins(t *testing.T) {
	for name, write := range map[string]func(dir, name string, data []byte) error{
		"rename without a flush": func(dir, name string, data []byte) error {
			if err := os.WriteFile(dir+"/stage", data, 0o600); err != nil {
				return err
			}
			return os.Rename(dir+"/stage", dir+"/"+name)
		},
		"in place": func(dir, name string, data []byte) error {
			f, err := os.OpenFile(dir+"/"+name, os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			_, err = f.Write(data)
			return errors.Join(err, f.Truncate(int64(len(data))), f.Sync(), f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			image := formatted(t)
			random := rand.New(rand.NewPCG(1, 2))
			d, dir := powered(t, image)
			h := newHistory(t, d, dir, random)
			for i := range 40 {
				n := fmt.Sprintf("f%d", i%3)
				h.begin(n)
				must(t, write(dir, n, h.content(n)))
				h.done(n)
			}
			found := 0
			for range 20 {
				position := random.IntN(d.Position() + 1)
				withCut(t, d.Cut(position, random), func(dir string) { found += len(h.judge(dir, position)) })
			}
			if found == 0 {
				t.Error("no cut found what was forgotten")
			}
			t.Logf("%d findings", found)
		})
	}
}

// A policy without durability promises none, and loses: the test can tell.
func TestPowerLossVolatile(t *testing.T) {
	image := formatted(t)
	random := rand.New(rand.NewPCG(3, 4))
	d, dir := powered(t, image)
	p := caproot.Workspace()
	p.Durability = caproot.DurabilityVolatile
	r := opened(t, dir, p)
	defer r.Close()
	h := newHistory(t, d, dir, random)
	for i := range 30 {
		n := fmt.Sprintf("f%d", i%3)
		h.begin(n)
		_, err := r.Put(n, h.content(n), caproot.PutOptions{Durability: caproot.DurabilityVolatile})
		must(t, err)
		h.done(n)
	}
	// The kernel's own writes come every five seconds: ask for them.
	must(t, exec.CommandContext(context.Background(), "sync", "-f", dir).Run())
	found := 0
	for range 10 {
		position := random.IntN(d.Position() + 1)
		withCut(t, d.Cut(position, random), func(dir string) { found += len(h.judge(dir, position)) })
	}
	if found == 0 {
		t.Error("nothing was lost")
	}
}
