package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// onDisk runs work in a directory of a journaled ext4 of its own, if this
// process may mount one: a root file system without a journal makes creating
// and syncing look cheaper than they are.
func onDisk(base string, work func(dir string) error) (err error) {
	image, point := filepath.Join(base, "ext4"), filepath.Join(base, "disk")
	if err := os.Mkdir(point, 0o755); err != nil {
		return err
	}
	if why := mountImage(image, point); why != nil {
		fmt.Printf("in %s, not on a file system of its own: %v\n", base, why)
		return work(point)
	}
	fmt.Println("on a loop-mounted ext4 with a journal")
	defer func() {
		if e := exec.Command("umount", point).Run(); e != nil && err == nil {
			err = fmt.Errorf("umount %s: %w", point, e)
		}
	}()
	return work(point)
}

func mountImage(image, point string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("mounting needs root")
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, 512<<20); err != nil {
		return err
	}
	for _, c := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-O", "has_journal", image},
		{"mount", "-o", "loop", image, point},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", c[0], err, out)
		}
	}
	return nil
}
