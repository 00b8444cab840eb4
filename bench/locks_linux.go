package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

func runLocks(dir string, rounds int) error {
	base, err := os.MkdirTemp(dir, "caproot-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	return onDisk(base, func(disk string) error {
		n, kinds := node(""), []string{}
		if _, err := exec.LookPath("npm"); err != nil {
			fmt.Println("without the Node peers:", err)
		} else if n, err = installNode(base); err != nil {
			return err
		} else {
			kinds = nodeKinds
		}
		if err := lockPairs(disk, rounds, n, kinds); err != nil {
			return err
		}
		if err := lockContention(disk, n, kinds); err != nil {
			return err
		}
		return lockRecovery(disk)
	})
}

func lockContention(dir string, n node, nodes []string) error {
	kinds := []string{"caproot", "caproot kept", "caproot fair", "caproot advisory", "retained flock", "gofrs/flock", "lockedfile", "O_EXCL sidecar", "nightlyone"}
	kinds = append(kinds, nodes...)
	results := map[string]contention{}
	for _, kind := range kinds {
		c, err := contend(dir, kind, n, 4*time.Second)
		if err != nil {
			return err
		}
		results[kind] = c
	}
	printContention(kinds, results)
	return nil
}

// lockRecovery has the retained flock beside it: what the kernel needs to take
// a dead process's lock away is in every time.
func lockRecovery(dir string) error {
	kinds := []string{"caproot", "caproot advisory", "retained flock"}
	results := map[string][]time.Duration{}
	for _, kind := range kinds {
		times, err := recovery(dir, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		results[kind] = times
	}
	printRecovery(kinds, results)
	return nil
}
