package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pairSlice is how long a process acquires and releases before the next one's turn.
const pairSlice = 20 * time.Millisecond

// pairs acquires and releases in a process of its own, until stop.
func (n node) pairs(kind, target string) (one timing, stop func(), err error) {
	process := n.command("pairs", kind, target)
	input, err := process.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := process.Start(); err != nil {
		return nil, nil, err
	}
	one = func() (took time.Duration, err error) {
		if _, err := fmt.Fprintln(input, int64(pairSlice)); err != nil {
			return 0, err
		}
		if _, err = fmt.Fscanln(output, &took); err != nil {
			err = fmt.Errorf("%s: %w", kind, err)
		}
		return took, err
	}
	return one, func() { input.Close(); process.Wait() }, nil
}

// pairsOnDemand is the process's part.
func pairsOnDemand(acquire take) error {
	lines := bufio.NewReader(os.Stdin)
	for {
		var slice time.Duration
		if _, err := fmt.Fscanln(lines, &slice); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		took, err := repeat(func() error {
			give, err := acquire()
			if err != nil {
				return err
			}
			return give()
		}, slice)
		if err != nil {
			return err
		}
		fmt.Println(int64(took))
	}
}

// lockPairs compares acquiring and releasing with nobody else there.
func lockPairs(dir string, rounds int, n node, nodes []string) error {
	t := newTable()
	defer t.Flush()
	for _, r := range []struct {
		work  string
		kinds []string
	}{
		{"sidecar, acquire and release", append([]string{"caproot", "O_EXCL sidecar", "nightlyone"}, nodes...)},
		{"sidecar with KeepRecord", append([]string{"caproot kept", "O_EXCL sidecar", "nightlyone"}, nodes...)},
		{"advisory, file kept open", []string{"caproot advisory", "retained flock", "gofrs/flock", "lockedfile"}},
		{"advisory, opened each time", []string{"caproot advisory, opened each time", "retained flock", "gofrs/flock", "lockedfile"}},
	} {
		var timings []timing
		for _, kind := range r.kinds {
			name := strings.NewReplacer("/", "-", " ", "-").Replace(r.work + kind)
			one, stop, err := n.pairs(kind, filepath.Join(dir, name))
			if err != nil {
				return err
			}
			defer stop()
			timings = append(timings, one)
		}
		medians, err := interleave(timings, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", r.work, err)
		}
		t.add(r.work, r.kinds, medians)
	}
	return nil
}
