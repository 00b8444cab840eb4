package faults

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/blocklog"
)

// filesystem is one that a disk is formatted with.
type filesystem struct {
	kind    string
	size    int64
	mkfs    []string
	options string
}

var filesystems = map[string]filesystem{
	"ext4":                 {"ext4", 16 << 20, ext4, ""},
	"ext4, data=writeback": {"ext4", 16 << 20, ext4, "data=writeback,noauto_da_alloc"},
	"ext4, data=journal":   {"ext4", 16 << 20, ext4, "data=journal"},
	"xfs":                  {"xfs", 64 << 20, []string{"--unsupported", "-q", "-f"}, "nouuid"},
	"btrfs":                {"btrfs", 128 << 20, []string{"-q", "-f", "-m", "single", "-d", "single"}, ""},
}

var ext4 = []string{"-q", "-F", "-b", "4096", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0"}

// format returns the image of an empty file system, or skips for a reason.
func (k *filesystem) format(t *testing.T) []byte {
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
	must(t, os.Truncate(file, k.size))
	out, err := exec.Command("mkfs."+k.kind, append(slices.Clone(k.mkfs), file)...).CombinedOutput()
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

// power mounts the file system on a disk that remembers. off takes it away; what
// the kernel writes then comes after the end of the test.
func (k *filesystem) power(t *testing.T) (d *blocklog.Disk, dir string, off func()) {
	t.Helper()
	d = blocklog.New(k.format(t))
	device, detach, err := d.Attach(t.TempDir())
	if err != nil {
		t.Skipf("no loop device over FUSE: %v", err)
	}
	dir = t.TempDir()
	if err := syscall.Mount(device, dir, k.kind, 0, k.options); err != nil {
		detach()
		t.Skipf("%s does not mount: %v", k.kind, err)
	}
	off = sync.OnceFunc(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
		detach()
	})
	t.Cleanup(off)
	return d, dir, off
}

// after mounts what a loss of power left, which replays the journal, and looks.
func (k *filesystem) after(t *testing.T, image []byte, look func(dir string)) {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "cut"), t.TempDir()
	must(t, writeSparse(file, image))
	defer os.Remove(file)
	device, free, err := blocklog.Loop(file)
	must(t, err)
	defer free()
	if err := syscall.Mount(device, dir, k.kind, 0, k.options); err != nil {
		t.Errorf("the file system does not mount after the cut: %v", err)
		return
	}
	defer func() { must(t, syscall.Unmount(dir, 0)) }()
	look(dir)
}

// writeSparse leaves out what is zero.
func writeSparse(file string, image []byte) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var zero [64 << 10]byte
	for at := 0; at < len(image); at += len(zero) {
		part := image[at:min(at+len(zero), len(image))]
		if bytes.Equal(part, zero[:len(part)]) {
			continue
		}
		if _, err := f.WriteAt(part, int64(at)); err != nil {
			return err
		}
	}
	return f.Truncate(int64(len(image)))
}

// cuts is how often power is lost in a test.
func cuts(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CAPROOT_POWER_CUTS"), "40"))
	must(t, err)
	return n
}

// Power is lost at random positions of the log of a disk, whole sectors that were
// not flushed yet kept or lost at random, under Put, Append, Batch, Move, state,
// sidecars and leases. Whatever returned as durable is there, and every name holds
// one whole version.
func TestPowerLoss(t *testing.T) {
	for name, k := range filesystems {
		t.Run(name, func(t *testing.T) { k.losePower(t) })
	}
}

func (k *filesystem) losePower(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	d, dir, off := k.power(t)
	h := newHistory(t, d, dir, random)
	// The flush of the new directory logs the new name and not that the old one is
	// gone, which the flush of the old directory does.
	h.twoNames = k.kind == "btrfs"
	for range 120 {
		h.step(t)
	}
	end, flushes, findings := d.Position(), d.Flushes(), 0
	h.close()
	off()
	for i := range cuts(t) {
		position := random.IntN(end + 1)
		partly := random
		if i%3 == 0 {
			partly = nil
		}
		k.after(t, d.Cut(position, partly), func(dir string) {
			for _, f := range h.judge(dir, position) {
				findings++
				t.Errorf("seed %d, cut at %d of %d: %s", seed, position, end, f)
			}
		})
	}
	t.Logf("%d durable results, %d writes and flushes of the disk, %d flushes, %d cuts, %d findings", h.durable(), end, flushes, cuts(t), findings)
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
			k := filesystems["ext4"]
			random := rand.New(rand.NewPCG(1, 2))
			d, dir, _ := k.power(t)
			h := newHistory(t, d, dir, random)
			defer h.close()
			for i := range 40 {
				n := fmt.Sprintf("f%d", i%3)
				h.begin(n)
				must(t, write(dir, n, h.content(n)))
				h.done(n)
			}
			found := 0
			for range 20 {
				position := random.IntN(d.Position() + 1)
				k.after(t, d.Cut(position, random), func(dir string) { found += len(h.judge(dir, position)) })
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
	k := filesystems["ext4"]
	random := rand.New(rand.NewPCG(3, 4))
	d, dir, _ := k.power(t)
	p := caproot.Workspace()
	p.Durability = caproot.DurabilityVolatile
	r := opened(t, dir, p)
	defer r.Close()
	h := newHistory(t, d, dir, random)
	defer h.close()
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
		k.after(t, d.Cut(position, random), func(dir string) { found += len(h.judge(dir, position)) })
	}
	if found == 0 {
		t.Error("nothing was lost")
	}
}
